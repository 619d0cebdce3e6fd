"""A process to be killed: `killed.py CONFIG.yaml tiny|configured PAUSE` trains, or goes on, and prints each update's number."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tiny import TinyTranslator

from regard.config.loading import read_config
from regard.errors import RegardError
from regard.training import fit, resume
from regard.training.progress import Lines
from regard.training.run import Run


def main() -> int:
    config = read_config(sys.argv[1])
    model = TinyTranslator if sys.argv[2] == "tiny" else None
    pause = float(sys.argv[3])
    moved = Lines.after_update

    def slowly(lines: Lines, run: Run) -> None:
        moved(lines, run)
        print(run.progress.step, flush=True)
        time.sleep(pause)

    Lines.after_update = slowly
    try:
        if (Path(config.out) / "checkpoints" / "run.json").exists():
            resume(config.out, model=model)
        else:
            fit(config, model=model)
    except RegardError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
