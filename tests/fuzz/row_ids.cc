// Ids of rows, as a program asks for them.
#include "ps/tables/row_ids.h"

#include <algorithm>
#include <cstring>

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::fuzz::Input input(data, size);
  const auto total = static_cast<int64_t>(input.number() >> 1);
  const int servers = 1 + static_cast<int>(input.below(7));
  const bool near = input.flag();
  std::vector<int64_t> ids;
  while (!input.empty() && ids.size() < 512) {
    ids.push_back(near ? input.byte() : static_cast<int64_t>(input.number()));
  }
  std::vector<int64_t> inverse(ids.size());
  strata::ps::RowIds found;
  if (!strata::fuzz::takes([&] { found = strata::ps::find_rows(ids, total, servers, inverse); })) {
    return 0;
  }
  strata::fuzz::expect(found.begins.size() == static_cast<size_t>(servers) + 1, "a begin a server");
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto place = static_cast<size_t>(inverse[i]);
    strata::fuzz::expect(place < found.rows.size() && found.rows[place] == ids[i],
                         "each id is found at its place");
  }
  return 0;
}
