#include "strata/collective/communication_options.h"

#include "strata/core/error.h"

namespace strata::collective {

std::vector<std::vector<size_t>> packs_of(const std::vector<int64_t>& bytes,
                                          int64_t bytes_per_pack) {
  STRATA_CHECK(bytes_per_pack >= 0, kInvalidArgument,
               "[communication_options] bytes_per_pack: got ", bytes_per_pack,
               "; expected 0 (all in one pack) or more");
  std::vector<std::vector<size_t>> packs;
  int64_t size = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    STRATA_CHECK(bytes[i] >= 0, kInvalidArgument, "[communication_options] packs_of: got ",
                 bytes[i], " bytes for tensor ", i, "; expected 0 or more");
    if (packs.empty() || (bytes_per_pack > 0 && size > bytes_per_pack)) {
      packs.emplace_back();
      size = 0;
    }
    packs.back().push_back(i);
    size += bytes[i];
  }
  return packs;
}

}  // namespace strata::collective
