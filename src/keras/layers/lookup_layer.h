#pragma once

#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keras/layers/index_lookup.h"
#include "keras/layers/layer_class.h"
#include "strata/keras/layer_assets.h"

namespace strata::layers {

Json to_config(const HashSalt& salt);
void from_config(const Json& json, HashSalt& salt);

/// A list for which Keras writes null where it is empty.
template <typename List>
struct OrNull {
  List& values;
};
template <typename List>
Json to_config(const OrNull<List>& list) {
  return list.values.empty() ? Json() : keras::to_config(list.values);
}
template <typename List>
void from_config(const Json& json, OrNull<List>& list) {
  list.values.clear();
  if (!json.is_null()) keras::from_config(json, list.values);
}
/// For a `visit`, whose options may be constant.
template <typename Config, typename List>
void visit_or_null(Config& config, const char* key, List& values) {
  OrNull<List> list{values};
  config(key, list);
}

template <typename Options>
struct LookupArguments {
  Options options = {};
  /// What a file says, whose vocabulary comes later.
  std::optional<int64_t> vocabulary_size = {};
};

template <typename Options>
using LookupToken = decltype(Options::oov_token);

/// StringLookup and IntegerLookup.
template <typename Options>
class LookupImpl final : public keras::UnaryLayerImpl, public keras::KeepsAssets {
 public:
  using Token = LookupToken<Options>;

  explicit LookupImpl(const LookupArguments<Options>& arguments);
  std::string_view class_name() const override { return lookup_.rules().class_name; }

  const IndexLookup<Token>& lookup() const { return lookup_; }
  /// To learn.
  /// @throws Error kFailedPrecondition: the vocabulary was given.
  IndexLookup<Token>& learner();
  /// Of a row, also before a file's vocabulary is there.
  /// @throws Error kFailedPrecondition: it depends on a vocabulary that does not exist yet.
  int64_t depth() const;
  void set_vocabulary(const std::vector<Token>& vocabulary, const std::vector<double>& idf_weights);

  keras::LayerAssets assets() const override;
  void load_assets(const keras::LayerAssets& assets) override;

 private:
  void describe(keras::ConfigWriter& config) const override;
  bool autocast() const override { return false; }
  at::Tensor call(const at::Tensor& x, const keras::Call& call) override;
  keras::Shape compute_output_shape(const keras::Shape& input) const override;
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override;

  Options options_;
  std::optional<int64_t> expected_size_;
  IndexLookup<Token> lookup_;
  const bool given_;
};

extern template class LookupImpl<StringLookupOptions>;
extern template class LookupImpl<IntegerLookupOptions>;

}  // namespace strata::layers
