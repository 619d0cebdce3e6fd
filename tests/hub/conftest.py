"""A small server that speaks the hub's protocol, as far as `huggingface_hub` uses it for models."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Hub:
    """Repositories in memory: each commit is a map from names to contents."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}
        self.heads: dict[str, dict[str, str]] = {}
        self.stored: dict[str, bytes] = {}  # large files by their hash
        self.requests: list[str] = []
        self.private: set[str] = set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()

    def find(self, repository: str, revision: str) -> str | None:
        """Return the commit of a branch, a tag or a commit."""
        if revision in self.commits.get(repository, {}):
            return revision
        return self.heads.get(repository, {}).get(revision)

    def commit(self, repository: str, files: dict[str, bytes], branch: str = "main") -> str:
        before = self.heads.setdefault(repository, {}).get(branch, "")
        content = self.commits.setdefault(repository, {}).get(before, {}) | files
        own = hashlib.sha1(json.dumps([before, sorted(map(repr, content.items()))]).encode()).hexdigest()
        self.commits[repository][own] = content
        self.heads[repository][branch] = own
        return own


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments) -> None:
        pass

    def answer(self, content: object, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("Connection", "close")
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer({"error": code}, status, X_Error_Code=code, X_Error_Message=code)

    def handle_request(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        hub.requests.append(f"{self.command} {path}")
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            self.describe(match[1], match[2].replace("%2F", "/"))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.give(*match.groups())
        elif path == "/api/repos/create":
            asked = json.loads(sent)
            name = f"{asked['organization']}/{asked['name']}"
            if name in hub.heads:
                self.answer({"url": f"{hub.url}/{name}", "id": name}, 409)
                return
            hub.heads[name], hub.commits[name] = {}, {}
            hub.commit(name, {})
            if asked.get("private") or asked.get("visibility") == "private":
                hub.private.add(name)
            self.answer({"url": f"{hub.url}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            modes = [
                {"path": file["path"], "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular"}
                for file in json.loads(sent)["files"]
            ]
            self.answer({"files": [{**mode, "shouldIgnore": False} for mode in modes]})
        elif path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(sent)["objects"]
            actions = [{**own, "actions": {"upload": {"href": f"{hub.url}/stored/{own['oid']}"}}} for own in objects]
            self.answer({"transfer": "basic", "objects": actions})
        elif path.startswith("/stored/"):
            assert hashlib.sha256(sent).hexdigest() == path.rpartition("/")[2]
            hub.stored[path.rpartition("/")[2]] = sent
            self.answer({})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            files = {}
            for line in map(json.loads, sent.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                if line["key"] == "lfsFile":
                    files[value["path"]] = hub.stored[value["oid"]]
            oid = hub.commit(match[1], files, match[2])
            self.answer({"commitUrl": f"{hub.url}/{match[1]}/commit/{oid}", "commitOid": oid, "success": True})
        else:
            self.refuse(404, "EntryNotFound")

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def describe(self, repository: str, revision: str) -> None:
        if repository not in self.hub.heads:
            self.refuse(404, "RepoNotFound")
        elif (commit := self.hub.find(repository, revision)) is None:
            self.refuse(404, "RevisionNotFound")
        else:
            files = self.hub.commits[repository][commit]
            siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
            self.answer({"id": repository, "sha": commit, "siblings": siblings, "private": False, "tags": [], "downloads": 0})

    def give(self, repository: str, revision: str, name: str) -> None:
        commit = self.hub.find(repository, revision)
        content = self.hub.commits[repository][commit].get(name) if commit else None
        if content is None:
            self.refuse(404, "EntryNotFound")
            return
        tag = f'"{hashlib.sha1(content).hexdigest()}"'
        self.answer(content, ETag=tag, X_Repo_Commit=commit, Content_Type="application/octet-stream")


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[Hub]:
    """A hub that is used instead of the real one, and an empty cache."""
    server = Hub()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.utils.tqdm.HF_HUB_DISABLE_PROGRESS_BARS", True, raising=False)
    monkeypatch.setenv("HF_TOKEN", "token-of-a-test")
    yield server
    server.stop()
