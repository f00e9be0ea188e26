// The measured links between the ranks of a job, which one rank tells the others.
#include "collective/planner/link_model.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::collective::LinkModel;
  LinkModel model;
  const std::string text(strata::fuzz::text_of(data, size));
  if (!strata::fuzz::takes([&] { model = LinkModel::from_json(text); })) return 0;
  const std::string written = model.to_json();
  strata::fuzz::expect(LinkModel::from_json(written).to_json() == written,
                       "to_json(from_json(text)) == text");
  return 0;
}
