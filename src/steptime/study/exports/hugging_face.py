"""weights for transformers: config.json, safetensors."""

from pathlib import Path

from steptime.study.export import Export, Exported


def write(run: Path, folder: Path) -> Exported:
    """The fp32 weights of a run's newest checkpoint, with what its text is written with."""
    from steptime.train.hugging_face import write_hugging_face
    from steptime.train.text import copy_text
    from steptime.train.weights import weights_at

    weights = weights_at(run)
    config = weights.dimensions()
    files = write_hugging_face(folder, config, weights.tensors())
    files += copy_text(weights.folders, folder)
    facts = {
        "model": config.name,
        "parameters": config.parameters,
        "step": weights.checkpoint.step if weights.checkpoint else None,
    }
    return Exported(to="hugging_face", files=tuple(files), facts=facts)


EXPORT = Export(
    opened_by="transformers: AutoModelForCausalLM.from_pretrained(FOLDER)", of_weights=write
)
