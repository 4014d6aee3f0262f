"""The endpoint that the example extracts from: a day's files, as CSV. `python shop.py 9000` serves three of them."""

import json
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = {
    "north.csv": "order,cents\nn-1,1250\nn-2,300\n",
    "south.csv": "order,cents\ns-1,9900\n",
    "west.csv": "order,cents\nw-1,5\nw-2,10\nw-3,15\n",
}


@dataclass
class Shop:
    """What it serves: `busy` answers that many times 503 for a file, `gone` is 404 until it is back."""

    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    busy: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def answer(self, path: str) -> tuple[int, str]:
        """Return status and body for a path like /2026-11-29/north.csv."""
        name = path.rpartition("/")[2]
        if name == "index.json":
            return 200, json.dumps({"files": sorted(self.files)})
        if self.busy.get(name, 0) > 0:
            self.busy[name] -= 1
            return 503, "busy"
        return (404, "gone") if name in self.gone or name not in self.files else (200, self.files[name])


def server_of(shop: Shop, port: int = 0) -> ThreadingHTTPServer:
    """Return a server of the shop that is bound, and waits for `serve_forever`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            status, text = shop.answer(self.path)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    server_of(Shop(), int(sys.argv[1])).serve_forever()
