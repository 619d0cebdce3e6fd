"""Throughput and latency of `regard serve`, against one request at a time, a plain FastAPI handler, and LitServe if installed.

    python -m benchmarks service RUN [--clients 50] [--seconds 180] [--texts FILE] [--threads 2]

Each service runs in a process of its own and gets the same load: clients that send one sentence after the other, of mixed
lengths. Prints one JSON line for each: answers per second, latencies in milliseconds, statuses, resident memory at the start,
in the middle and at the end, and the statuses of requests when the service gets SIGTERM under the same load (`lost`: sent, but
never answered).
The last line has the ratios of throughput.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import httpx

PLAIN = """
import sys, torch, uvicorn, regard
from fastapi import FastAPI
from pydantic import BaseModel
torch.set_num_threads(int(sys.argv[3]))
translator, app = regard.load(sys.argv[1], device="cpu"), FastAPI()
class Body(BaseModel):
    texts: list[str]
@app.post("/v1/translate")
def translate(body: Body):
    return {"translations": [{"text": one.text} for one in translator.translate(body.texts, record=())]}
uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""
LITSERVE = """
import sys, torch, regard, litserve
class API(litserve.LitAPI):
    def setup(self, device):
        torch.set_num_threads(int(sys.argv[3]))
        self.translator = regard.load(sys.argv[1], device="cpu")
    def decode_request(self, request):
        return request["texts"][0]
    def predict(self, texts):
        return self.translator.translate(texts, record=())
    def encode_response(self, one):
        return {"translations": [{"text": one.text}]}
if __name__ == "__main__":
    api = API(max_batch_size=32, batch_timeout=0.005, api_path="/v1/translate")
    server = litserve.LitServer(api, accelerator="cpu", timeout=120)
    server.run(port=int(sys.argv[2]), generate_client_file=False, log_level="error")
"""
WORDS = ("a", "the", "man", "woman", "dog", "two", "blue", "house", "street", "child", "plays", "runs", "on", "small", "water")
START_SECONDS = 300


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return int(opened.getsockname()[1])


def read_texts(file: str | None) -> list[str]:
    """Return sentences of a file, or random ones of 3 to 30 words."""
    if file:
        return [line.partition("\t")[0] for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()]
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS, k=chance.randint(3, 30))) + " ." for _ in range(2000)]


def memory(process: int) -> float:
    """Return the resident memory of a process and its children in MiB; 0 where /proc does not exist."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if str(process) in (status.parent.name, facts["PPid"].strip()):
            total += int(facts.get("VmRSS", "0 kB").split()[0]) / 1024
    return round(total, 1)


def load(
    url: str, texts: list[str], clients: int, seconds: float, during: Callable[[], object] = lambda: None
) -> tuple[list[float], Counter[int | str]]:
    """Send requests from several threads, and return the latencies of answers and the number of each status.

    A client ends when the service does not listen any more. Requests that were sent and not answered count as `lost`.

    Args:
        url: Address to send the requests to.
        texts: Texts, one for each request.
        clients: Number of threads.
        seconds: Number of seconds for which requests are sent.
        during: Function that is called after half of the time.
    """
    latencies: list[float] = []
    statuses: Counter[int | str] = Counter()
    end, numbers = time.monotonic() + seconds, count()

    def client() -> None:
        with httpx.Client(timeout=300) as connection:
            while time.monotonic() < end:
                start = time.monotonic()
                try:
                    answer = connection.post(url, json={"texts": [texts[next(numbers) % len(texts)]]})
                except httpx.ConnectError:
                    return
                except httpx.TransportError:
                    statuses["lost"] += 1
                    return
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    latencies.append(time.monotonic() - start)
                elif answer.status_code == 429:
                    time.sleep(float(answer.headers["Retry-After"]))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, end - time.monotonic() - seconds / 2))
    during()
    for thread in threads:
        thread.join()
    return latencies, statuses


def measure(name: str, command: list[str], port: int, options: argparse.Namespace, texts: list[str], clients: int) -> float:
    """Start a service, send it requests, stop it under load, print what was measured, and return the answers per second."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "false"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload]
    url = f"http://127.0.0.1:{port}/v1/translate"
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                httpx.post(url, json={"texts": ["a"]}, timeout=60)
                break
            except httpx.TransportError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"benchmarks: {name} did not start") from None
                time.sleep(0.2)
        load(url, texts, clients, min(5.0, options.seconds))  # warm-up
        sizes = [memory(process.pid)]
        start = time.monotonic()
        latencies, statuses = load(url, texts, clients, options.seconds, lambda: sizes.append(memory(process.pid)))
        taken = time.monotonic() - start
        latencies.sort()
        result: dict[str, Any] = {"benchmark": "service", "service": name, "clients": clients, "seconds": round(taken, 1)}
        result |= {"answers_per_second": round(len(latencies) / taken, 2), "statuses": dict(statuses)}
        if latencies:
            shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
            result |= {key: round(1000 * latencies[int(share * (len(latencies) - 1))], 1) for key, share in shares.items()}
        sizes.append(memory(process.pid))
        _, stopped = load(url, texts, clients, min(10.0, options.seconds), process.terminate)
        print(json.dumps(result | {"memory_mib": sizes, "statuses_at_stop": dict(stopped)}), flush=True)
        return float(result["answers_per_second"])
    finally:
        process.terminate()
        process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # LitServe leaves its workers behind


def main() -> None:
    """Measure each service in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks service", description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="folder of a trained translator")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--texts", help="file of sentences, one per line (default: random sentences)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each service (default: 2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Measure each service; the programs of the other services are written to `folder`."""
    texts = read_texts(options.texts)
    ours = [sys.executable, "-m", "regard", "serve", f"model={options.run}", "--threads", str(options.threads), "--port"]

    def other(program: str, port: int) -> list[str]:
        file = folder / f"service_{port}.py"  # a file, because LitServe's workers import the program again
        file.write_text(program, encoding="utf-8")
        return [sys.executable, str(file), options.run, str(port), str(options.threads)]

    port = free_port()
    own = measure("regard serve", [*ours, str(port)], port, options, texts, options.clients)
    port = free_port()
    rivals = {"one request at a time": measure("one request at a time", [*ours, str(port)], port, options, texts, 1)}
    port = free_port()
    rivals["FastAPI handler"] = measure("FastAPI handler", other(PLAIN, port), port, options, texts, options.clients)
    if find_spec("litserve"):
        port = free_port()
        rivals["LitServe"] = measure("LitServe", other(LITSERVE, port), port, options, texts, options.clients)
    print(
        json.dumps(
            {"benchmark": "service", "times_as_many_answers_as": {name: round(own / n, 2) for name, n in rivals.items()}}
        )
    )


if __name__ == "__main__":
    main()
