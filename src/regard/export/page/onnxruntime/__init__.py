"""Files of onnxruntime-web that pages contain; `files.json` has their version and hashes."""
