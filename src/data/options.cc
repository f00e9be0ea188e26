#include "strata/data/options.h"

#include "data/source.h"

namespace strata::data::detail {
namespace {

class OptionsSource final : public OrderSource<OptionsSource> {
 public:
  OptionsSource(SourcePtr input, const Options& options)
      : OrderSource(std::move(input)), options_(options) {}

  template <class T>
  std::unique_ptr<Stream<T>> open(uint64_t epoch) const {
    return open_stream<T>(input(), epoch);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  const Options* own_options() const override { return &options_; }
  SourcePtr with_inputs(std::vector<SourcePtr> inputs) const override {
    return make_options(std::move(inputs[0]), options_);
  }

 private:
  Options options_;
};

}  // namespace

SourcePtr make_options(SourcePtr input, const Options& options) {
  return std::make_shared<OptionsSource>(std::move(input), options);
}

}  // namespace strata::data::detail
