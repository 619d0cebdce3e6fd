"""A process to be killed: trains, or goes on, as `killed.py CONFIG.yaml` says, and says when training has begun."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tiny import TinyTranslator

from regard.config.loading import read_config
from regard.errors import RegardError
from regard.training import fit, resume
from regard.training.callbacks import Display


def main() -> int:
    config = read_config(sys.argv[1])
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    moved = Display.on_train_batch_end

    def slowly(*arguments: object) -> None:
        moved(*arguments)
        print(config.seed and arguments[0]._run.progress.step, flush=True)
        time.sleep(pause)

    Display.on_train_batch_end = slowly
    try:
        if (Path(config.out) / "checkpoints" / "config.yaml").exists():
            resume(config.out, model=TinyTranslator)
        else:
            fit(config, model=TinyTranslator)
    except RegardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
