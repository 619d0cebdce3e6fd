"use strict";
// The form of the home page: send a text to the chosen model, and show the answer as JSON.
const form = document.querySelector("form");
const choose = () => (form.text.value = form.model.selectedOptions[0].dataset.example);
form.model.addEventListener("change", choose);
choose();
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { path, inputs, streams } = form.model.selectedOptions[0].dataset;
  const body = { model: form.model.value, [inputs]: [form.text.value], ...(streams ? { stream: false } : {}) };
  const answer = document.querySelector("#answer");
  answer.textContent = "…";
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
    answer.textContent = JSON.stringify(await response.json(), null, 2);
  } catch (error) {
    answer.textContent = String(error);
  }
});
