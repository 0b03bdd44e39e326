"""onnxruntime behind the standard library's HTTP server: the Open Inference Protocol with the binary extension, as far as serve.py asks for it."""
import http.server
import json
import sys

import numpy
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        length = int(self.headers["Inference-Header-Content-Length"])
        tensor = json.loads(body[:length])["inputs"][0]
        images = numpy.frombuffer(body, numpy.uint8, offset=length).reshape(tensor["shape"])
        (likely,) = session.run(["probabilities"], {"input": images})
        output = {"name": "probabilities", "datatype": "FP32", "shape": likely.shape, "data": likely.ravel().tolist()}
        answer = json.dumps({"model_name": "model", "outputs": [output]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
