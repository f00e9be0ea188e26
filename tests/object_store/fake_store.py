#!/usr/bin/env python3
"""An object store in memory with Amazon S3's interface, as far as strata calls it, and with faults on demand.

Signatures (version 4) and tokens are checked, the pages of listings are short, parts have their smallest size. With
--faults P it spoils P percent of the requests: an error of the server, a closed connection before or after the work was
done, half a response, or silence. Prints "port N", and ends when its standard input does.

Written from Amazon's API reference: https://docs.aws.amazon.com/AmazonS3/latest/API/
"""

import argparse
import hashlib
import hmac
import random
import re
import socket
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

SMALLEST_PART = 5 << 20


class Refusal(Exception):
    def __init__(self, status, code, message, more=""):
        super().__init__(message)
        self.status, self.code, self.message, self.more = status, code, message, more


class Store:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.buckets = {name: {} for name in options.buckets.split(",")}
        self.uploads = {}
        self.random = random.Random(options.seed)
        self.requests = self.spoilt = 0

    def next_fault(self):
        with self.lock:
            self.requests += 1
            if self.random.uniform(0, 100) >= self.options.faults:
                return None
            self.spoilt += 1
            return self.random.choice(["error", "busy", "lost request", "lost response", "half", "silence"])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None
    wbufsize = -1

    def log_message(self, *unused):
        pass

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.store.next_fault()
        if fault == "silence":
            time.sleep(self.store.options.silence)
        if fault in ("silence", "lost request"):
            self.close_connection = True
            return
        try:
            if fault == "error":
                raise Refusal(500, "InternalError", "We encountered an internal error. Please try again.")
            if fault == "busy":
                raise Refusal(503, "SlowDown", "Please reduce your request rate.")
            status, headers, reply = self.answer(body)
        except Refusal as refusal:
            status, headers = refusal.status, {"Content-Type": "application/xml"}
            reply = (f"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{refusal.code}</Code>"
                     f"<Message>{escape(refusal.message)}</Message>{refusal.more}</Error>").encode()
        if fault == "lost response":
            self.close_connection = True
            return
        self.send_response(status)
        headers.setdefault("Content-Length", str(len(reply)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply[: len(reply) // 2] if fault == "half" else reply)
        if fault == "half":
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any

    def answer(self, body):
        url = urllib.parse.urlsplit(self.path)
        self.check_credentials(url, body)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _, bucket, *rest = urllib.parse.unquote(url.path).split("/", 2)
        key = rest[0] if rest else ""
        with self.store.lock:
            if bucket not in self.store.buckets:
                raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist")
            objects = self.store.buckets[bucket]
            if not key:
                return self.list(objects, query)
            if "uploads" in query or "uploadId" in query:
                return self.upload(objects, bucket, key, query, body)
            return getattr(self, self.command.lower())(objects, key, body)

    def check_credentials(self, url, body):
        options = self.store.options
        given = self.headers.get("Authorization", "")
        if options.token:
            if given != "Bearer " + options.token:
                raise Refusal(401, "AuthenticationRequired", "Authentication required.")
            return
        if not options.key:
            return
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request,SignedHeaders=([^,]+),"
                             r"Signature=([0-9a-f]+)", given)
        if not found:
            raise Refusal(403, "AccessDenied", "Access Denied")
        key, day, region, names, signature = found.groups()
        if key != options.key:
            raise Refusal(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
        if region != options.region:
            raise Refusal(400, "AuthorizationHeaderMalformed", f"the region '{region}' is wrong; expecting "
                          f"'{options.region}'", f"<Region>{options.region}</Region>")
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            raise Refusal(400, "XAmzContentSHA256Mismatch", "The provided header does not match what was computed.")
        pairs = sorted(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        quote = lambda text: urllib.parse.quote(text, safe="-._~")
        canonical = "\n".join([
            self.command, url.path, "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs),
            *(f"{name}:{self.headers[name].strip()}" for name in names.split(";")), "", names,
            self.headers["x-amz-content-sha256"]])
        when = self.headers["x-amz-date"]
        text = "\n".join(["AWS4-HMAC-SHA256", when, f"{day}/{region}/s3/aws4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        secret = b"AWS4" + options.secret.encode()
        for part in (day, region, "s3", "aws4_request", text):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        if secret.hex() != signature:
            raise Refusal(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the "
                          "signature you provided. Check your key and signing method.")

    def list(self, objects, query):
        if self.command != "GET":
            raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(int(query.get("max-keys", 1000)), self.store.options.page)
        names, folders, last = [], [], ""
        after = query.get("continuation-token", "")
        truncated = False
        for key in sorted(objects):
            if not key.startswith(prefix):
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if end < 0 else key[: end + 1]
            if name <= after or name == last:
                continue
            if len(names) + len(folders) == most:
                truncated = True
                break
            (names if end < 0 else folders).append(name)
            last = name
        encode = urllib.parse.quote_plus if query.get("encoding-type") == "url" else escape
        parts = [f"<Contents><Key>{encode(name)}</Key><Size>{len(objects[name][0])}</Size></Contents>" for name in names]
        parts += [f"<CommonPrefixes><Prefix>{encode(name)}</Prefix></CommonPrefixes>" for name in folders]
        if truncated:
            parts.append(f"<NextContinuationToken>{escape(last)}</NextContinuationToken>")
        return 200, {}, ("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                         f"<KeyCount>{len(parts)}</KeyCount><IsTruncated>{str(truncated).lower()}</IsTruncated>"
                         + "".join(parts) + "</ListBucketResult>").encode()

    def upload(self, objects, bucket, key, query, body):
        uploads = self.store.uploads
        if "uploads" in query:
            name = f"{len(uploads)}/+ {key}"
            uploads[name] = {}
            return 200, {}, f"<R><Bucket>{bucket}</Bucket><UploadId>{escape(name)}</UploadId></R>".encode()
        name = query["uploadId"]
        if name not in uploads:
            raise Refusal(404, "NoSuchUpload", "The specified upload does not exist.")
        if self.command == "PUT":
            uploads[name][int(query["partNumber"])] = body
            return 200, {"ETag": f"\"{hashlib.md5(body).hexdigest()}\""}, b""
        if self.command == "DELETE":
            del uploads[name]
            return 204, {}, b""
        parts = uploads[name]
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>\"?([0-9a-f]+)\"?</ETag>", body.decode())
        wanted = [(str(number), hashlib.md5(parts[number]).hexdigest()) for number in sorted(parts)]
        if named != wanted:
            raise Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
        if any(len(parts[number]) < SMALLEST_PART for number in sorted(parts)[:-1]):
            raise Refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
        self.set(objects, key, b"".join(parts[number] for number in sorted(parts)))
        del uploads[name]
        return 200, {}, b"<CompleteMultipartUploadResult/>"

    @staticmethod
    def set(objects, key, body):
        objects[key] = (body, f"\"{hashlib.md5(body).hexdigest()}\"", time.time())

    def found(self, objects, key):
        if key not in objects:
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        return objects[key]

    def head(self, objects, key, body):
        body, tag, when = self.found(objects, key)
        return 200, {"ETag": tag, "Last-Modified": formatdate(when, usegmt=True), "Content-Length": str(len(body))}, b""

    def get(self, objects, key, body):
        body, tag, _ = self.found(objects, key)
        if self.headers.get("If-Match", tag) != tag:
            raise Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        if int(first) >= len(body):
            raise Refusal(416, "InvalidRange", "The requested range is not satisfiable")
        return 206, {"ETag": tag}, body[int(first): int(last) + 1]

    def put(self, objects, key, body):
        source = self.headers.get("x-amz-copy-source") or self.headers.get("x-goog-copy-source")
        if source:
            _, bucket, key_of_source = urllib.parse.unquote(source).split("/", 2)
            body = self.found(self.store.buckets[bucket], key_of_source)[0]
        self.set(objects, key, body)
        return 200, {"ETag": objects[key][1]}, b"<CopyObjectResult/>" if source else b""

    def delete(self, objects, key, body):
        objects.pop(key, None)
        return 204, {}, b""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *unused):  # a client that has gone
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buckets", default="bucket")
    parser.add_argument("--key", default="")
    parser.add_argument("--secret", default="")
    parser.add_argument("--token", default="")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--page", type=int, default=7, help="names in a page of a listing")
    parser.add_argument("--faults", type=float, default=0, help="percent of the requests")
    parser.add_argument("--silence", type=float, default=30, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    Handler.store = Store(options)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("port", server.server_address[1], flush=True)
    sys.stdin.read()
    print("requests", Handler.store.requests, "spoilt", Handler.store.spoilt, flush=True)


if __name__ == "__main__":
    main()
