"""Llama and Mixtral in NumPy and float64, a position and a token at a time: what ours is held to.

Touvron et al., "Llama 2" (arXiv 2307.09288); Jiang et al., "Mixtral of Experts" (arXiv 2401.04088).
Shapes: T positions, C channels, D of a head, V tokens.
"""

import numpy as np


def logits(weights, tokens, *, layers, heads, kv_heads, top_k):
    """Scores (T, V) of every token behind each of ``tokens``, (T,), by weights of these names."""
    x = weights["embedding.wte"][tokens]
    for layer in range(layers):
        own = {
            name.removeprefix(f"blocks.{layer}."): values
            for name, values in weights.items()
            if name.startswith(f"blocks.{layer}.")
        }
        x = x + attention(own, normed(x, own["ln1.weight"]), heads, kv_heads)
        half = normed(x, own["ln2.weight"])
        x = x + np.stack([mlp(own, one, top_k) for one in half])
    return normed(x, weights["head.ln.weight"]) @ weights["head.weight"].T


def normed(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def attention(own, x, heads, kv_heads):
    q, k, v = (
        (x @ own[f"attention.{which}.weight"].T).reshape(len(x), count, -1)
        for which, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
    )
    found = np.empty_like(q)
    for head in range(heads):
        shared = head * kv_heads // heads
        queries, keys = turned(q[:, head]), turned(k[:, shared])
        for at in range(len(x)):
            scores = keys[: at + 1] @ queries[at] / np.sqrt(q.shape[-1])
            found[at, head] = softmax(scores) @ v[: at + 1, shared]
    return found.reshape(len(x), -1) @ own["attention.proj.weight"].T


def turned(x):
    """Rotary positions (arXiv 2104.09864): channels i and i + D/2 are a complex number."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(len(x)), 10_000.0 ** (-np.arange(half) / half))
    z = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate((z.real, z.imag), axis=-1)


def mlp(own, x, top_k):
    """One token through the MLP or, weighted, through the best of the experts."""
    if "mlp.router.weight" not in own:
        return swiglu(own, "mlp", x)
    scores = own["mlp.router.weight"] @ x
    best = np.argsort(scores)[-top_k:]
    shares = softmax(scores[best])
    return sum(
        share * swiglu(own, f"mlp.experts.{expert}", x)
        for share, expert in zip(shares, best, strict=True)
    )


def swiglu(own, name, x):
    gate = own[f"{name}.gate.weight"] @ x
    return own[f"{name}.proj.weight"] @ (
        gate / (1 + np.exp(-gate)) * (own[f"{name}.fc.weight"] @ x)
    )


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()
