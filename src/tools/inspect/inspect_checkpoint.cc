#include <iostream>

#include "checkpoint/describe.h"
#include "strata/core/error.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

void fail_unless(bool good, const InspectPath& path) {
  STRATA_CHECK(good, kDataLoss, "[strata inspect] ", path.path,
               " is damaged; expected the contents listed above");
}

void print_checkpoint(const InspectPath& path, const InspectOptions&) {
  fail_unless(describe_checkpoint(path.path, std::cout), path);
}
bool recognises_checkpoint(const InspectPath& path) {
  return path.is_folder && is_checkpoint(path.path);
}

void print_safetensors(const InspectPath& path, const InspectOptions&) {
  fail_unless(describe_safetensors(path.path, std::cout), path);
}
bool recognises_safetensors(const InspectPath& path) {
  // Eight bytes of length, the upper ones of which are 0, then JSON.
  return path.name().ends_with(".safetensors") ||
         (path.start.size() > 8 && path.start.compare(5, 4, std::string("\0\0\0{", 4)) == 0);
}

}  // namespace

const InspectKind kInspectCheckpoint = {"checkpoint", recognises_checkpoint, print_checkpoint};
const InspectKind kInspectSafetensors = {"safetensors file", recognises_safetensors,
                                         print_safetensors};

}  // namespace strata::tools
