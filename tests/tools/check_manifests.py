"""What an independent reader makes of a rendered file.

  check_manifests.py yaml FILE        its documents, as one line of JSON (PyYAML)
  check_manifests.py kubernetes FILE  each document against Kubernetes' own schemas (kubernetes-validate), strictly

Exit code 77: the package is not installed."""
import json
import sys

what, path = sys.argv[1:]
try:
    import yaml
    if what == "kubernetes":
        import kubernetes_validate
except ImportError as error:
    print(f"there is no Python package {error.name}")
    sys.exit(77)
with open(path, encoding="utf-8") as file:
    documents = list(yaml.safe_load_all(file))
if what == "yaml":
    print(json.dumps(documents))
else:
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)
        print(document["kind"], document["metadata"]["name"])
