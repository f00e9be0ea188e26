#!/usr/bin/env python3
"""moto's S3 server (`pip install 'moto[server]'`) with the options and the output of fake_store.py: a server that others wrote.

Before a request or after it, --faults P percent of them get an error of the server, or none within --silence seconds.
"""

import argparse
import random
import sys
import threading
import time

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class QuietHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *unused):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buckets", default="bucket")
    parser.add_argument("--key", default="any")
    parser.add_argument("--secret", default="any")
    parser.add_argument("--faults", type=float, default=0)
    parser.add_argument("--silence", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    moto = DomainDispatcherApplication(create_backend_app)
    numbers = random.Random(options.seed)
    count = {"requests": 0, "spoilt": 0}
    is_ready = threading.Event()

    def answer(environ, start_response):
        fault = None
        if is_ready.is_set():
            count["requests"] += 1
            if numbers.uniform(0, 100) < options.faults:
                count["spoilt"] += 1
                fault = numbers.choice(["before", "after", "silence"])
        if fault == "silence":
            time.sleep(options.silence)
        if fault == "after":
            list(moto(environ, lambda *unused: lambda data: None))
        if fault in ("before", "after"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0) if fault == "before" else 0)
            start_response("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.server_port}", region_name="us-east-1",
                          aws_access_key_id=options.key, aws_secret_access_key=options.secret)
    for bucket in options.buckets.split(","):
        client.create_bucket(Bucket=bucket)
    is_ready.set()
    print("port", server.server_port, flush=True)
    sys.stdin.read()
    print("requests", count["requests"], "spoilt", count["spoilt"], flush=True)


if __name__ == "__main__":
    main()
