#include "strata/keras/layers/text_vectorization.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "graph/host_call.h"
#include "keras/layers/lookup_layer.h"
#include "keras/layers/on_host.h"
#include "keras/layers/text_tokens.h"
#include "strata/data/texts.h"

namespace strata::layers {

Ngrams::Ngrams(int64_t most) : widths(static_cast<size_t>(std::max<int64_t>(most, 0))) {
  std::iota(widths.begin(), widths.end(), int64_t{1});
}
Json to_config(const Ngrams& ngrams) {
  return ngrams.is_list ? keras::to_config(ngrams.widths)
                        : Json(static_cast<int64_t>(ngrams.widths.size()));
}
void from_config(const Json& json, Ngrams& ngrams) {
  if (json.is_int()) {
    ngrams = json.as_int();
    return;
  }
  std::vector<int64_t> widths;
  keras::from_config(json, widths);
  ngrams = Ngrams(std::move(widths));
}

/// A word for whose "none" Keras writes null.
template <typename Word>
struct WordOrNull {
  Word& word;
};
template <typename Word>
Json to_config(const WordOrNull<Word>& option) {
  return option.word == "none" ? Json() : Json(option.word.word());
}
template <typename Word>
void from_config(const Json& json, WordOrNull<Word>& option) {
  if (json.is_null()) {
    option.word = "none";
  } else {
    keras::from_config(json, option.word);
  }
}

template <typename Config, typename Word>
void visit_word(Config& config, const char* key, Word& word) {
  WordOrNull<Word> option{word};
  config(key, option);
}

namespace {

struct TextVectorizationArguments {
  TextVectorizationOptions options = {};
  std::optional<int64_t> vocabulary_size = {};  ///< As LookupArguments'.
};

template <typename Config, keras::OneOf<TextVectorizationArguments> Arguments>
void visit(Config& config, Arguments& layer) {
  auto& options = layer.options;
  config("max_tokens", options.max_tokens);
  visit_word(config, "standardize", options.standardize);
  visit_word(config, "split", options.split);
  config("ngrams", options.ngrams);
  config("output_mode", options.output_mode);
  config("output_sequence_length", options.output_sequence_length);
  config("pad_to_max_tokens", options.pad_to_max_tokens);
  config.only("sparse", false);
  config.only("ragged", false);
  visit_or_null(config, "vocabulary", options.vocabulary);
  visit_or_null(config, "idf_weights", options.idf_weights);
  config.only("encoding", "utf-8");
  config("vocabulary_size", layer.vocabulary_size);
  config.ignore("has_input_vocabulary");
}

using TokenLookup = LookupImpl<StringLookupOptions>;
using TokenRows = std::vector<std::vector<std::string>>;

class TextVectorizationImpl final : public keras::UnaryLayerImpl, public keras::KeepsAssets {
 public:
  explicit TextVectorizationImpl(const TextVectorizationArguments& arguments)
      : UnaryLayerImpl(keras::base_options(arguments.options)),
        options_(arguments.options),
        expected_size_(arguments.vocabulary_size),
        lookup_(
            track("_lookup_layer", StringLookup({.max_tokens = options_.max_tokens,
                                                 .mask_token = "",
                                                 .vocabulary = options_.vocabulary,
                                                 .vocabulary_file = options_.vocabulary_file,
                                                 .idf_weights = options_.idf_weights,
                                                 .output_mode = options_.output_mode,
                                                 .pad_to_max_tokens = options_.pad_to_max_tokens,
                                                 .dtype = options_.dtype}))) {
    options_.standardize.check("[layers] TextVectorization");
    options_.split.check("[layers] TextVectorization");
    STRATA_CHECK(options_.output_mode == LookupMode::kInt || !options_.output_sequence_length,
                 kInvalidArgument,
                 "[layers] TextVectorization: `output_sequence_length` must not be set if "
                 "`output_mode` is not 'int'. Received output_sequence_length=",
                 options_.output_sequence_length.value_or(0), ".");
    STRATA_CHECK(options_.output_sequence_length.value_or(1) > 0, kInvalidArgument,
                 "[layers] TextVectorization: got output_sequence_length=",
                 options_.output_sequence_length.value_or(0), "; expected 1 or more");
    STRATA_CHECK(!splits() || options_.output_mode != LookupMode::kOneHot, kInvalidArgument,
                 "[layers] TextVectorization: got output_mode='one_hot' and texts that are split; "
                 "expected split='none', or 'multi_hot', 'count' or 'tf_idf'");
    for (const int64_t width : options_.ngrams.value_or(1).widths) {
      STRATA_CHECK(width > 0, kInvalidArgument, "[layers] TextVectorization: got ngrams of width ",
                   width, "; expected 1 or more");
    }
    STRATA_CHECK(!options_.ngrams || !options_.ngrams->widths.empty(), kInvalidArgument,
                 "[layers] TextVectorization: got no width in ngrams; expected one or more");
  }
  std::string_view class_name() const override { return "TextVectorization"; }

  TokenLookup& lookup() const { return static_cast<TokenLookup&>(*lookup_); }

  /// The tokens of each text of a batch; with split='none' those of each row.
  TokenRows rows_of(const at::Tensor& x) const {
    TokenRows rows;
    std::vector<std::string> texts = data::texts_of(x);
    for (std::string& text : texts) text = standardized(std::move(text));
    if (splits()) {
      for (const std::string& text : texts) rows.push_back(with_ngrams(tokens_of(text)));
      return rows;
    }
    const auto length = static_cast<size_t>(x.dim() < 3 ? 1 : x.size(1));
    for (size_t at = 0; at < texts.size(); at += length) {
      rows.push_back(with_ngrams({texts.begin() + static_cast<ptrdiff_t>(at),
                                  texts.begin() + static_cast<ptrdiff_t>(at + length)}));
    }
    return rows;
  }

  keras::LayerAssets assets() const override { return lookup().assets(); }
  void load_assets(const keras::LayerAssets& assets) override { lookup().load_assets(assets); }

 private:
  void describe(keras::ConfigWriter& config) const override {
    STRATA_CHECK(!options_.standardize_function && !options_.split_function, kUnimplemented,
                 "[keras] layer '", name(),
                 "': a function of the program's own cannot be written to a file; use the words of "
                 "`standardize` and `split`");
    const IndexLookup<std::string>& vocabulary = lookup().lookup();
    const TextVectorizationArguments arguments{
        options_,
        vocabulary.is_known() ? vocabulary.size() : expected_size_.value_or(vocabulary.size())};
    visit(config, arguments);
    config("sparse", false);
    config("ragged", false);
    config("encoding", Json("utf-8"));
  }
  bool autocast() const override { return false; }
  void build(const keras::Shape& input) override { lookup_->ensure_built({input}); }

  bool splits() const { return options_.split_function || options_.split != Split::kNone; }
  std::string standardized(std::string text) const {
    if (options_.standardize_function) return options_.standardize_function(text);
    const Standardize& how = options_.standardize;
    const bool both = how == Standardize::kLowerAndStripPunctuation;
    if (both || how == Standardize::kLower) lower_ascii(text);
    if (both || how == Standardize::kStripPunctuation) strip_punctuation(text);
    return text;
  }
  std::vector<std::string> tokens_of(const std::string& text) const {
    if (options_.split_function) return options_.split_function(text);
    return options_.split == Split::kWhitespace ? split_at_whitespace(text)
                                                : split_into_characters(text);
  }
  std::vector<std::string> with_ngrams(std::vector<std::string> tokens) const {
    return options_.ngrams ? ngrams_of(tokens, options_.ngrams->widths) : tokens;
  }

  bool expects_size() const {
    return expected_size_ && !lookup().lookup().is_known() && !options_.pad_to_max_tokens;
  }
  bool gives_ids() const { return options_.output_mode == LookupMode::kInt; }

  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>&) const override {
    return {gives_ids() ? at::kLong : dtype().compute_dtype()};
  }

  keras::Shape compute_output_shape(const keras::Shape& input) const override {
    keras::Shape output = input;
    output.pop_back();  // the bytes
    if (splits() && output.size() > 1) output.pop_back();
    if (!splits() && !output.empty()) output.pop_back();
    if (gives_ids()) {
      output.push_back(options_.output_sequence_length.value_or(keras::kNone));
      return output;
    }
    output.push_back(expects_size() ? *expected_size_ : lookup().depth());
    return output;
  }

  /// Where each text is one token: what StringLookup gives for texts of this shape.
  at::Tensor look_up(const at::Tensor& x) const {
    std::vector<std::string> texts = data::texts_of(x);
    for (std::string& text : texts) text = standardized(std::move(text));
    const at::Tensor tokens = data::text_tensor(texts);
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = tokens.size(-1);
    return lookup_(tokens.reshape(sizes));
  }

  void check(const at::Tensor& x) const {
    STRATA_CHECK(x.scalar_type() == at::kByte && x.dim() > 0 && x.dim() < 4, kInvalidArgument,
                 "[keras] layer '", name(), "': got ", toString(x.scalar_type()), " of shape ",
                 keras::to_string(x.sizes().vec()),
                 "; expected texts, uint8 [batch, width] or [batch, 1, width], as "
                 "data::text_tensor makes them");
    STRATA_CHECK(!splits() || x.dim() < 3 || x.size(1) == 1, kInvalidArgument, "[keras] layer '",
                 name(),
                 "': When using `TextVectorization` to tokenize strings, the input rank must be 1 "
                 "or the last shape dimension must be 1. Received: inputs.shape=",
                 keras::to_string(x.sizes().slice(0, 2).vec()), " with rank=2");
    STRATA_CHECK(
        splits() || x.dim() == 3 || (!options_.ngrams && !options_.output_sequence_length),
        kInvalidArgument, "[keras] layer '", name(), "': got texts of shape ",
        keras::to_string(x.sizes().slice(0, x.dim() - 1).vec()),
        " and split='none' with ngrams or output_sequence_length; expected [batch, tokens]");
  }

  at::Tensor call(const at::Tensor& x, const keras::Call&) override {
    check(x);
    const auto self = std::static_pointer_cast<const TextVectorizationImpl>(shared_from_this());
    lookup().lookup().check_known(name());
    if (!splits() && x.dim() < 3) {
      graph::refuse_in_trace("TextVectorization with split='none'", "call it in dataset.map");
      return look_up(x.cpu()).to(x.device());
    }
    std::vector<int64_t> sizes;
    if (x.dim() > 1) sizes.push_back(x.size(0));
    if (!gives_ids()) {
      const int64_t depth = lookup().lookup().depth();
      sizes.push_back(depth);
      return on_host("strata::text_rows", {x}, sizes, at::kFloat,
                     [self, depth](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                       float* row = elements_of<float>(result).data();
                       for (const auto& tokens : self->rows_of(inputs.at(0))) {
                         self->lookup().lookup().fill_row(tokens, row);
                         row += depth;
                       }
                     })
          .to(dtype().compute_dtype());
    }
    int64_t length = options_.output_sequence_length.value_or(0);
    if (length == 0) {
      graph::refuse_in_trace("TextVectorization without output_sequence_length",
                             "set it: a recorded step has tensors of fixed sizes");
      for (const auto& tokens : rows_of(x)) {
        length = std::max(length, static_cast<int64_t>(tokens.size()));
      }
    }
    sizes.push_back(length);
    return on_host("strata::text_ids", {x}, sizes, at::kLong,
                   [self, length](const std::vector<at::Tensor>& inputs, at::Tensor& result) {
                     int64_t* row = elements_of<int64_t>(result).data();
                     for (const auto& tokens : self->rows_of(inputs.at(0))) {
                       const size_t count = std::min(tokens.size(), static_cast<size_t>(length));
                       std::transform(
                           tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count), row,
                           [&](const auto& each) { return self->lookup().lookup().id_of(each); });
                       row += length;
                     }
                   });
  }

  const TextVectorizationOptions options_;
  const std::optional<int64_t> expected_size_;
  const StringLookup lookup_;
};

TextVectorizationImpl& vectorization_of(const keras::Layer& layer) {
  return static_cast<TextVectorizationImpl&>(*layer);
}

void add_documents(const TextVectorizationImpl& impl, const at::Tensor& texts) {
  IndexLookup<std::string>& learner = impl.lookup().learner();
  for (const auto& tokens : impl.rows_of(texts)) learner.add_document(tokens);
}

}  // namespace

TextVectorization::TextVectorization(const TextVectorizationOptions& options)
    : Layer(std::make_shared<TextVectorizationImpl>(TextVectorizationArguments{options})) {}

at::Tensor TextVectorization::operator()(const std::vector<std::string>& texts) const {
  return (*this)(data::text_tensor(texts));
}

void TextVectorization::adapt(const std::vector<std::string>& texts) {
  const TextVectorizationImpl& impl = vectorization_of(*this);
  IndexLookup<std::string>& learner = impl.lookup().learner();
  learner.begin();
  add_documents(impl, data::text_tensor(texts));
  learner.learn();
}

void TextVectorization::adapt(const data::Dataset& dataset) {
  const TextVectorizationImpl& impl = vectorization_of(*this);
  IndexLookup<std::string>& learner = impl.lookup().learner();
  learner.begin();
  data::Iterator iterator = dataset.iterator(0);
  while (const std::optional<data::Example> each = iterator.next()) add_documents(impl, each->x());
  learner.learn();
}

void TextVectorization::set_vocabulary(const std::vector<std::string>& vocabulary,
                                       const std::vector<double>& idf_weights) {
  vectorization_of(*this).lookup().set_vocabulary(vocabulary, idf_weights);
}
std::vector<std::string> TextVectorization::get_vocabulary(bool include_special_tokens) const {
  return vectorization_of(*this).lookup().lookup().vocabulary(include_special_tokens);
}
int64_t TextVectorization::vocabulary_size() const {
  return vectorization_of(*this).lookup().lookup().size();
}

}  // namespace strata::layers

namespace strata::keras {

std::vector<LayerClass> text_layers() {
  using namespace layers;  // NOLINT(google-build-using-namespace)
  return {
      STRATA_LAYER_CLASS("TextVectorization", TextVectorizationImpl, TextVectorizationArguments)};
}

}  // namespace strata::keras
