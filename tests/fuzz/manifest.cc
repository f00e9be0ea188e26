// A checkpoint's manifest. Each input is read with the seal that it lacks, so that what is behind
// the seal is reached; if it has one, also as it is.
#include "checkpoint/manifest.h"

#include "core/sha256.h"
#include "fuzz/fuzz_target.h"

namespace {

void read(std::string_view text) {
  using namespace strata::checkpoint;
  Manifest manifest;
  if (!strata::fuzz::takes([&] { manifest = parse_manifest(text, "manifest.json"); })) return;
  const std::string written = write_manifest(manifest);
  strata::fuzz::expect(write_manifest(parse_manifest(written, "again")) == written,
                       "write(parse(text)) == text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = strata::fuzz::text_of(data, size);
  const std::string_view body = text.substr(0, text.rfind(",\n  \"sha256\": \""));
  if (body.size() < text.size()) read(text);
  strata::Sha256 hash;
  hash.update(body.data(), body.size());
  read(std::string(body) + ",\n  \"sha256\": \"" + hash.hex_digest() + "\"\n}\n");
  return 0;
}
