"""Receives webhooks and checks their signatures with the OpenWOP client's own recipe. Usage: SECRET

Prints the port, then one JSON line for each delivery."""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from openwop_client.webhook_helpers import read_webhook_headers, verify_webhook_signature


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        signature, timestamp, family = read_webhook_headers(dict(self.headers))
        verdict = verify_webhook_signature(sys.argv[1], signature, timestamp, body)
        line = {"valid": verdict.valid, "family": family, "type": self.headers["x-openwop-event-type"], "body": json.loads(body)}
        print(json.dumps(line), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
