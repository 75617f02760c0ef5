"""The models that are trained: GPT-2 and Llama as modules of torch, whole or a rank's part."""

from steptime.train.model.transformer import Block, Decoder, compile_units

__all__ = ["Block", "Decoder", "compile_units"]
