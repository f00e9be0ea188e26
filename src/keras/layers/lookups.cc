#include "strata/keras/layers/lookups.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>

#include "core/join.h"
#include "keras/layers/lookup_layer.h"
#include "keras/layers/on_host.h"
#include "strata/core/file_system.h"
#include "strata/data/texts.h"

namespace strata::layers {

Json to_config(const HashSalt& salt) { return Json::array({salt.first, salt.second}); }

void from_config(const Json& json, HashSalt& salt) {
  if (json.is_int()) {
    salt = json.as_int();
    return;
  }
  std::vector<int64_t> values;
  keras::from_config(json, values);
  STRATA_CHECK(values.size() == 2, kDataLoss, "got ", values.size(), " integers; expected 2");
  salt = {values[0], values[1]};
}

template <typename Config,
          keras::OneOf<LookupArguments<StringLookupOptions>, LookupArguments<IntegerLookupOptions>>
              Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  constexpr bool kTexts = !requires { options.oov_method; };
  config("invert", options.invert);
  config("max_tokens", options.max_tokens);
  config("num_oov_indices", options.num_oov_indices);
  config("oov_token", options.oov_token);
  config("mask_token", options.mask_token);
  config("output_mode", options.output_mode);
  config.only("sparse", false);
  config("pad_to_max_tokens", options.pad_to_max_tokens);
  visit_or_null(config, "idf_weights", options.idf_weights);
  visit_or_null(config, "vocabulary", options.vocabulary);
  config("vocabulary_size", layer.vocabulary_size);
  config.ignore("has_input_vocabulary");
  if constexpr (kTexts) {
    config.only("encoding", "utf-8");
    config.ignore("oov_method");  // texts are always hashed
  } else {
    config.only("vocabulary_dtype", "int64");
    config.unless("oov_method", options.oov_method, "floormod");
  }
  config.unless("salt", options.salt, {});
}

namespace {

LookupRules rules_of(const StringLookupOptions& options) {
  return {.class_name = "StringLookup",
          .max_tokens = options.max_tokens,
          .num_oov_indices = options.num_oov_indices,
          .output_mode = options.output_mode,
          .pad_to_max_tokens = options.pad_to_max_tokens,
          .invert = options.invert,
          .oov_method = "farmhash",
          .salt = options.salt};
}
LookupRules rules_of(const IntegerLookupOptions& options) {
  return {.class_name = "IntegerLookup",
          .max_tokens = options.max_tokens,
          .num_oov_indices = options.num_oov_indices,
          .output_mode = options.output_mode,
          .pad_to_max_tokens = options.pad_to_max_tokens,
          .invert = options.invert,
          .oov_method = options.oov_method,
          .salt = options.salt};
}

std::vector<std::string> tokens_of(const at::Tensor& x, const std::string&) {
  return data::texts_of(x);
}
std::vector<int64_t> tokens_of(const at::Tensor& x, int64_t) { return integers_of(x); }

/// Texts have their bytes along the last dimension.
template <typename Token>
keras::Shape token_shape(keras::Shape shape) {
  if constexpr (std::is_same_v<Token, std::string>) shape.pop_back();
  return shape;
}

/// Of what a layer gives for tokens of this shape, rows' width last.
keras::Shape row_shape(keras::Shape shape, const LookupMode& mode, int64_t depth) {
  const bool one_hot = mode == LookupMode::kOneHot;
  const bool drop_last = !shape.empty() && (!one_hot || (shape.size() > 1 && shape.back() == 1));
  if (drop_last) shape.pop_back();
  shape.push_back(depth);
  return shape;
}

void write_texts(const std::vector<std::string>& texts, at::Tensor& result) {
  auto to = elements_of<uint8_t>(result).begin();
  for (const std::string& text : texts) {
    std::copy(text.begin(), text.end(), to);
    to += result.size(-1);
  }
}

constexpr const char* kVocabularyFile = "vocabulary.txt";
constexpr const char* kIdfWeights = "idf_weights";

}  // namespace

template <typename Options>
LookupImpl<Options>::LookupImpl(const LookupArguments<Options>& arguments)
    : UnaryLayerImpl(keras::base_options(arguments.options)),
      options_(arguments.options),
      expected_size_(arguments.vocabulary_size),
      lookup_(rules_of(options_), options_.mask_token, options_.oov_token),
      given_(!options_.vocabulary.empty() || !options_.vocabulary_file.empty()) {
  const char* const where = lookup_.rules().class_name;
  STRATA_CHECK(options_.vocabulary.empty() || options_.vocabulary_file.empty(), kInvalidArgument,
               "[layers] ", where, ": got a vocabulary and vocabulary_file='",
               options_.vocabulary_file, "'; expected one of them");
  STRATA_CHECK(options_.idf_weights.empty() || options_.output_mode == LookupMode::kTfIdf,
               kInvalidArgument, "[layers] ", where,
               ": `idf_weights` should only be set if `output_mode` is `'tf_idf'`. Received: "
               "output_mode=",
               options_.output_mode.word());
  if (!options_.vocabulary_file.empty()) {
    STRATA_CHECK(options_.output_mode != LookupMode::kTfIdf, kInvalidArgument, "[layers] ", where,
                 ": output_mode `'tf_idf'` does not support loading a vocabulary from file.");
    const std::string& path = options_.vocabulary_file;
    lookup_.set(IndexLookup<Token>::tokens_of_lines(read_file(path), path), {});
  } else if (given_) {
    lookup_.set(options_.vocabulary, options_.idf_weights);
  }
}

template <typename Options>
void LookupImpl<Options>::describe(keras::ConfigWriter& config) const {
  const LookupArguments<Options> arguments{options_,
                                           lookup_.is_known() ? lookup_.size() : expected_size_};
  visit(config, arguments);
  config("sparse", false);
  if constexpr (std::is_same_v<Token, std::string>) {
    config("encoding", Json("utf-8"));
  } else {
    config("vocabulary_dtype", Json("int64"));
  }
}

template <typename Options>
IndexLookup<LookupToken<Options>>& LookupImpl<Options>::learner() {
  STRATA_CHECK(
      !given_, kFailedPrecondition, "[keras] layer '", name(),
      "': Cannot adapt layer after setting a static vocabulary via `vocabulary` argument.");
  return lookup_;
}

template <typename Options>
void LookupImpl<Options>::set_vocabulary(const std::vector<Token>& vocabulary,
                                         const std::vector<double>& idf_weights) {
  lookup_.set(vocabulary, idf_weights);
}

template <typename Options>
keras::LayerAssets LookupImpl<Options>::assets() const {
  keras::LayerAssets assets;
  if (!lookup_.is_known()) return assets;
  if (options_.vocabulary.empty()) {  // else it is in the config
    assets.files[kVocabularyFile] = join(lookup_.vocabulary(true), {}, "\n");
  }
  if (options_.output_mode == LookupMode::kTfIdf) {
    assets.tensors[kIdfWeights] = at::tensor(lookup_.idf_weights(), at::kFloat);
  }
  return assets;
}

template <typename Options>
void LookupImpl<Options>::load_assets(const keras::LayerAssets& assets) {
  std::vector<float> weights;
  if (const auto found = assets.tensors.find(kIdfWeights); found != assets.tensors.end()) {
    const at::Tensor values = found->second.cpu().to(at::kFloat).contiguous();
    const std::span<const float> elements = elements_of<float>(values);
    weights.assign(elements.begin(), elements.end());
  }
  if (const auto file = assets.files.find(kVocabularyFile); file != assets.files.end()) {
    const std::vector<Token> tokens =
        IndexLookup<Token>::tokens_of_lines(file->second, kVocabularyFile);
    // Weights are as many as a row is wide, which may be more than the vocabulary has tokens.
    std::vector<double> own(weights.begin(), weights.begin() + static_cast<ptrdiff_t>(std::min(
                                                                   weights.size(), tokens.size())));
    lookup_.set(tokens, own);
  } else if (!weights.empty()) {
    lookup_.check_known(name());
    STRATA_CHECK(static_cast<int64_t>(weights.size()) == lookup_.depth(), kInvalidArgument,
                 "[keras] layer '", name(), "': got ", weights.size(),
                 " idf_weights; expected one for each of the ", lookup_.depth(),
                 " columns of its rows");
    lookup_.set_idf_weights(std::move(weights));
  }
}

template <typename Options>
std::vector<at::ScalarType> LookupImpl<Options>::compute_output_dtypes(
    const std::vector<at::ScalarType>&) const {
  if (options_.output_mode != LookupMode::kInt) return {dtype().compute_dtype()};
  return {std::is_same_v<Token, std::string> && options_.invert ? at::kByte : at::kLong};
}

template <typename Options>
int64_t LookupImpl<Options>::depth() const {
  if (lookup_.is_known() || options_.pad_to_max_tokens) return lookup_.depth();
  if (!expected_size_) lookup_.check_known(name());
  return *expected_size_;
}

template <typename Options>
keras::Shape LookupImpl<Options>::compute_output_shape(const keras::Shape& input) const {
  if (options_.invert) {
    keras::Shape output = input;
    if constexpr (std::is_same_v<Token, std::string>) output.push_back(keras::kNone);
    return output;
  }
  const keras::Shape tokens = token_shape<Token>(input);
  if (options_.output_mode == LookupMode::kInt) return tokens;
  return row_shape(tokens, options_.output_mode, depth());
}

template <typename Options>
at::Tensor LookupImpl<Options>::call(const at::Tensor& x, const keras::Call&) {
  constexpr bool kTexts = std::is_same_v<Token, std::string>;
  lookup_.check_known(name());
  const IndexLookup<Token>& lookup = lookup_;
  const auto self = std::static_pointer_cast<const LookupImpl>(shared_from_this());
  if (options_.invert) {
    keras::Shape sizes = x.sizes().vec();
    if constexpr (!kTexts) {
      return on_host("strata::lookup", {x}, sizes, at::kLong,
                     [self](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                       const auto ids = tokens_of(inputs.at(0), int64_t{});
                       std::ranges::transform(
                           ids, elements_of<int64_t>(result).begin(),
                           [&](int64_t id) { return self->lookup_.token_of(id); });
                     });
    } else {
      size_t width = 1;
      for (const std::string& text : lookup.vocabulary(true)) width = std::max(width, text.size());
      sizes.push_back(static_cast<int64_t>(width));
      return on_host("strata::lookup", {x}, sizes, at::kByte,
                     [self](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                       std::vector<std::string> texts;
                       for (const int64_t id : tokens_of(inputs.at(0), int64_t{})) {
                         texts.push_back(self->lookup_.token_of(id));
                       }
                       write_texts(texts, result);
                     });
    }
  }
  if constexpr (kTexts) {
    STRATA_CHECK(x.scalar_type() == at::kByte && x.dim() > 0, kInvalidArgument, "[keras] layer '",
                 name(), "': got ", toString(x.scalar_type()), " of shape ",
                 keras::to_string(x.sizes().vec()),
                 "; expected texts, uint8 [..., width], as data::text_tensor makes them");
  }
  const keras::Shape tokens = token_shape<Token>(x.sizes().vec());
  const LookupMode& mode = options_.output_mode;
  if (mode == LookupMode::kInt) {
    return on_host("strata::lookup", {x}, tokens, at::kLong,
                   [self](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                     const auto each = tokens_of(inputs.at(0), Token());
                     std::ranges::transform(
                         each, elements_of<int64_t>(result).begin(),
                         [&](const Token& token) { return self->lookup_.id_of(token); });
                   });
  }
  const bool one_hot = mode == LookupMode::kOneHot;
  STRATA_CHECK(one_hot || tokens.size() <= 2, kInvalidArgument, "[keras] layer '", name(),
               "': got input of ", tokens.size(),
               " dimensions; expected 1 or 2 (batch and sample) with output_mode='", mode.word(),
               "'");
  const auto length = static_cast<size_t>(one_hot || tokens.empty() ? 1 : tokens.back());
  const int64_t depth = lookup.depth();
  return on_host("strata::lookup", {x}, row_shape(tokens, mode, depth), at::kFloat,
                 [self, length, depth](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                   const auto each = tokens_of(inputs.at(0), Token());
                   float* row = elements_of<float>(result).data();
                   for (size_t at = 0; at < each.size(); at += length, row += depth) {
                     self->lookup_.fill_row(std::span(each).subspan(at, length), row);
                   }
                 })
      .to(dtype().compute_dtype());
}

template class LookupImpl<StringLookupOptions>;
template class LookupImpl<IntegerLookupOptions>;

namespace {

using StringLookupImpl = LookupImpl<StringLookupOptions>;
using IntegerLookupImpl = LookupImpl<IntegerLookupOptions>;

template <typename Impl>
Impl& lookup_impl(const keras::Layer& layer) {
  return static_cast<Impl&>(*layer);
}

/// The documents of a tensor, as Keras counts them: its rows, or it as a whole.
template <typename Token>
void add_documents(IndexLookup<Token>& lookup, const at::Tensor& data) {
  const std::vector<Token> tokens = tokens_of(data, Token());
  const keras::Shape shape = token_shape<Token>(data.sizes().vec());
  const size_t length = shape.size() < 2 || shape[0] == 0
                            ? tokens.size()
                            : tokens.size() / static_cast<size_t>(shape[0]);
  for (size_t at = 0; at < tokens.size(); at += length) {
    lookup.add_document(std::span(tokens).subspan(at, length));
  }
}

template <typename Token>
void learn_from(IndexLookup<Token>& lookup, const data::Dataset& dataset) {
  lookup.begin();
  data::Iterator iterator = dataset.iterator(0);
  while (const std::optional<data::Example> each = iterator.next())
    add_documents(lookup, each->x());
  lookup.learn();
}

}  // namespace

StringLookup::StringLookup(const StringLookupOptions& options)
    : Layer(std::make_shared<StringLookupImpl>(LookupArguments<StringLookupOptions>{options})) {}

at::Tensor StringLookup::operator()(const std::vector<std::string>& texts) const {
  return (*this)(data::text_tensor(texts));
}
std::vector<std::string> StringLookup::texts(const at::Tensor& ids) const {
  return data::texts_of((*this)(ids));
}
void StringLookup::adapt(const std::vector<std::string>& texts) {
  auto& lookup = lookup_impl<StringLookupImpl>(*this).learner();
  lookup.begin();
  for (const std::string& text : texts) lookup.add_document(std::span(&text, 1));
  lookup.learn();
}
void StringLookup::adapt(const data::Dataset& dataset) {
  learn_from(lookup_impl<StringLookupImpl>(*this).learner(), dataset);
}
void StringLookup::set_vocabulary(const std::vector<std::string>& vocabulary,
                                  const std::vector<double>& idf_weights) {
  lookup_impl<StringLookupImpl>(*this).set_vocabulary(vocabulary, idf_weights);
}
std::vector<std::string> StringLookup::get_vocabulary(bool include_special_tokens) const {
  return lookup_impl<StringLookupImpl>(*this).lookup().vocabulary(include_special_tokens);
}
int64_t StringLookup::vocabulary_size() const {
  return lookup_impl<StringLookupImpl>(*this).lookup().size();
}

IntegerLookup::IntegerLookup(const IntegerLookupOptions& options)
    : Layer(std::make_shared<IntegerLookupImpl>(LookupArguments<IntegerLookupOptions>{options})) {}

void IntegerLookup::adapt(const at::Tensor& data) {
  auto& lookup = lookup_impl<IntegerLookupImpl>(*this).learner();
  lookup.begin();
  add_documents(lookup, data.dim() == 1 ? data.unsqueeze(-1) : data);
  lookup.learn();
}
void IntegerLookup::adapt(const data::Dataset& dataset) {
  learn_from(lookup_impl<IntegerLookupImpl>(*this).learner(), dataset);
}
void IntegerLookup::set_vocabulary(const std::vector<int64_t>& vocabulary,
                                   const std::vector<double>& idf_weights) {
  lookup_impl<IntegerLookupImpl>(*this).set_vocabulary(vocabulary, idf_weights);
}
std::vector<int64_t> IntegerLookup::get_vocabulary(bool include_special_tokens) const {
  return lookup_impl<IntegerLookupImpl>(*this).lookup().vocabulary(include_special_tokens);
}
int64_t IntegerLookup::vocabulary_size() const {
  return lookup_impl<IntegerLookupImpl>(*this).lookup().size();
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> lookup_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {STRATA_LAYER_CLASS("StringLookup", LookupImpl<StringLookupOptions>,
                             LookupArguments<StringLookupOptions>),
          STRATA_LAYER_CLASS("IntegerLookup", LookupImpl<IntegerLookupOptions>,
                             LookupArguments<IntegerLookupOptions>)};
}

}  // namespace strata::keras
