"""The formulas of mechanisms in LaTeX, by the names of their classes: docstrings have them as plain text, for `help()`."""

_SOFTMAX = r"\operatorname{softmax}"
_NORM = r"\operatorname{norm}"
_TO_CONTEXT = r"\qquad \text{context} = W_o\, [\text{head}_1; \dots; \text{head}_H] + b_o"

FORMULAS = {
    "AttentionPooling": (
        r"e_k = w \cdot h_k + b, "
        r"\qquad \alpha = \operatorname{softmax}(e), "
        r"\qquad \text{context} = \sum_k \alpha_k h_k"
    ),
    "Additive": r"\operatorname{score}(q, k) = v \cdot \tanh(W_q\, q + W_k\, k)",
    "Concat": r"\operatorname{score}(q, k) = v \cdot \tanh(W\, [q; k])",
    "SumConcat": r"\operatorname{score}(q, k) = v \cdot \tanh(W (q + k))",
    "Dot": r"\operatorname{score}(q, k) = q \cdot k",
    "ScaledDot": r"\operatorname{score}(q, k) = \frac{q \cdot k}{\sqrt{D}}",
    "General": r"\operatorname{score}(q, k) = k \cdot (W q)",
    "Cosine": r"\operatorname{score}(q, k) = g\, \frac{q \cdot k}{\lVert q \rVert\, \lVert k \rVert}",
    "Trilinear": r"\operatorname{score}(q, k) = w_q \cdot q + w_k \cdot k + (w_p \circ q) \cdot k",
    "LinearConcat": r"\operatorname{score}(q, k) = w \cdot [q; k] + b",
    "WeightNormAdditive": r"\operatorname{score}(q, k) = g\, \frac{v}{\lVert v \rVert} \cdot \tanh(W_q\, q + W_k\, k + b)",
    "SelfAttention": (
        rf"q = W_q x + b_q, "
        rf"\quad k = W_k x + b_k, "
        rf"\quad v = W_v x + b_v, "
        rf"\qquad {_SOFTMAX}\left(\frac{{q k^\top}}{{\sqrt{{D}}}}\right) v"
    ),
    "MultiHead": rf"\text{{head}}_h = {_SOFTMAX}\left(\frac{{q_h k_h^\top}}{{\sqrt{{D / H}}}}\right) v_h, {_TO_CONTEXT}",
    "DifferentialAttention": (
        rf"\alpha_h = {_SOFTMAX}\left(\frac{{q_h k_h^\top}}{{\sqrt{{e}}}}\right)"
        rf" - \lambda\, {_SOFTMAX}\left(\frac{{q'_h k'^\top_h}}{{\sqrt{{e}}}}\right), "
        rf"\qquad \text{{head}}_h = (1 - \lambda_0)\, {_NORM}(\alpha_h v_h)"
    ),
    "ForgettingAttention": (
        rf"\alpha_{{ij}} = {_SOFTMAX}_j\left(\frac{{q_i \cdot k_j}}{{\sqrt{{D / H}}}}"
        rf" + \sum_{{l > j}} \log f_l\right), "
        rf"\qquad f_l = \sigma(w_f \cdot \text{{key}}_l + b_f)"
    ),
    "LatentAttention": (
        r"\operatorname{score}_{hj} = \frac{q_h \cdot U_h c_j"
        r" + \operatorname{rotated}(p_h) \cdot r_j}{\sqrt{E + E_r}}, "
        r"\qquad \text{head}_h = \sum_j \alpha_{hj} V_h c_j"
    ),
    "ContextualPositionAttention": (
        rf"p_{{ij}} = \sum_{{l \ge j}} \sigma\left(\frac{{q_i \cdot k_l}}{{\sqrt{{E}}}}\right), "
        rf"\qquad \alpha_{{ij}} = {_SOFTMAX}_j\left(\frac{{q_i \cdot k_j}}{{\sqrt{{E}}}}"
        rf" + q_i \cdot e[p_{{ij}}]\right)"
    ),
    "LinearAttention": (
        r"\alpha_{ij} = \frac{\varphi(q_i) \cdot \varphi(k_j)}{\sum_l \varphi(q_i) \cdot \varphi(k_l)}, "
        r"\qquad \varphi(x) = \operatorname{elu}(x) + 1"
    ),
    "GatedDeltaNet": (
        rf"S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{{t-1}} + \beta_t k_t v_t^\top, "
        rf"\qquad \text{{context}} = W_o \left({_NORM}(S_t^\top q_t) \circ \operatorname{{SiLU}}(W_g\, \text{{query}})\right)"
        rf" + b_o"
    ),
    "LocalMonotonic": (
        rf"\alpha_{{ts}} = {_SOFTMAX}_s(\operatorname{{score}}(q_t, k_s)) \quad \text{{for}} \quad |s - t| \le D, "
        rf"\qquad \text{{else}} \quad 0"
    ),
    "LocalPredictive": (
        r"p = S\, \sigma(v_p \cdot \tanh(W_p\, q)), "
        r"\qquad \alpha_s = \operatorname{align}_s \exp\left(-\frac{(s"
        r" - p)^2}{2 \sigma^2}\right) \quad \text{for} \quad |s - p| \le D"
    ),
    "LocationSensitive": (
        r"\operatorname{score}_t(q, k) = v \cdot \tanh(W_q\, q + W_k\, k + U f_t + b), "
        r"\qquad f_t = F * \alpha_{t-1}"
    ),
    "Coverage": (
        r"\operatorname{score}_t(q, k) = v \cdot \tanh(W_k\, k + W_q\, q + w_c\, c_t + b), "
        r"\qquad c_t = \sum_{t' < t} \alpha_{t'}"
    ),
    "FertilityCoverage": (
        r"\operatorname{score}_t(q, k) = v \cdot \tanh(W_q\, q + W_k\, k + w_c\, c_t), "
        r"\qquad c_t = \frac{1}{\Phi_k} \sum_{t' < t} \alpha_{t'k}, "
        r"\qquad \Phi_k = N \sigma(U_f \cdot k)"
    ),
    "SoftMonotonic": (
        r"\alpha_{ij} = p_{ij} \sum_{k \le j} \alpha_{i-1,k} \prod_{l=k}^{j-1} (1 - p_{il}), "
        r"\qquad p_{ij} = \sigma(e_{ij} + \varepsilon)"
    ),
    "HardMonotonic": (
        r"t_i = \min \{ j \ge t_{i-1} : \sigma(e_{ij}) > \tfrac{1}{2} \}, "
        r"\qquad \text{context}_i = \text{value}_{t_i}"
    ),
    "MoChA": r"\beta_{ij} = \sum_{k=j}^{j+w-1} \alpha_{ik} \frac{\exp(u_{ij})}{\sum_{l=k-w+1}^{k} \exp(u_{il})}",
    "HardMoChA": (
        r"\alpha_{ij} = \frac{\exp(u_{ij})}{\sum_{l=t_i-w+1}^{t_i} \exp(u_{il})} \quad \text{for} \quad t_i"
        r" - w < j \le t_i"
    ),
}  # fmt: skip
