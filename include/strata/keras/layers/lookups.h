#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Layers that make numbers of texts and integers by a vocabulary, and back. Texts are uint8
/// `[..., width]` (strata/data/texts.h), or std::strings. Ids and vocabularies are TensorFlow's.
///
/// They compute on the host: in a recorded step as one node, which each run calls again. Steps for
/// compilers (TPUs, `jit_compile`) and files of other programs cannot have them, as in Keras; call
/// them in `dataset.map` and hand numbers on.
/// Source: keras.layers 3.15.
namespace strata::layers {

struct LookupModeWords {
  enum Word { kInt, kOneHot, kMultiHot, kCount, kTfIdf };
  static constexpr const char* kOption = "output_mode";
  static constexpr const char* kWords[] = {"int", "one_hot", "multi_hot", "count", "tf_idf"};
};
/// "int": ids, int64; "one_hot": a row for each; "multi_hot", "count", "tf_idf": one row for the
/// last dimension, a sample. Rows have the dtype of the layer's arithmetic.
using LookupMode = OneOf<LookupModeWords>;

struct OovMethodWords {
  enum Word { kFloormod, kFarmhash };
  static constexpr const char* kOption = "oov_method";
  static constexpr const char* kWords[] = {"floormod", "farmhash"};
};
using OovMethod = OneOf<OovMethodWords>;

/// The key of a SipHash in place of FarmHash: two integers, or one for both.
struct HashSalt {
  int64_t first, second;

  HashSalt(int64_t both = 0) : HashSalt(both, both) {}  // NOLINT(google-explicit-constructor)
  HashSalt(int64_t first, int64_t second) : first(first), second(second) {}
  friend bool operator==(const HashSalt&, const HashSalt&) = default;
};

struct StringLookupOptions {
  std::optional<int64_t> max_tokens = {};  ///< Of the vocabulary, with mask and OOV tokens.
  /// Ids for what is not in the vocabulary; by hash if there are several. 0: such a text is an
  /// error.
  int64_t num_oov_indices = 1;
  std::optional<std::string> mask_token = {};  ///< Has id 0, or in rows none.
  std::string oov_token = "[UNK]";             ///< What `invert` gives for ids without a text.
  std::vector<std::string> vocabulary = {};    ///< Each text once; else `adapt`.
  std::string vocabulary_file = {};            ///< The same as a file of lines.
  std::vector<double> idf_weights = {};  ///< With "tf_idf" and a vocabulary: one for each of it.
  bool invert = false;                   ///< Ids become texts.
  LookupMode output_mode = "int";
  bool pad_to_max_tokens = false;     ///< Rows are `max_tokens` wide.
  std::optional<HashSalt> salt = {};  ///< Of the hash for several OOV ids.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// The id of a text in a vocabulary.
///
///     layers::StringLookup lookup({.vocabulary = {"a", "b"}});
///     at::Tensor ids = lookup(std::vector<std::string>{"b", "z"});  // 2, 0
///
/// A tensor of texts `[batch, ..., width]` gives ids `[batch, ...]` or rows.
/// @throws Error kInvalidArgument: options that do not match; a text without an id.
///         kFailedPrecondition: there is no vocabulary yet.
/// Threads: calls from any, after a first one; not while the vocabulary is set.
class STRATA_API StringLookup : public keras::Layer {
 public:
  explicit StringLookup(const StringLookupOptions& options = {});

  using Layer::operator();
  /// Texts `[n]`.
  at::Tensor operator()(const std::vector<std::string>& texts) const;
  /// With `invert`: the texts of ids, in the order of the tensor's memory.
  std::vector<std::string> texts(const at::Tensor& ids) const;

  /// Learns the vocabulary: the most frequent texts first, of equally frequent ones the larger. For
  /// "tf_idf" each text is a document, or of tensors in a dataset each row.
  /// @throws Error kFailedPrecondition: a vocabulary was given.
  void adapt(const std::vector<std::string>& texts);
  /// The first field of each element, batched or not.
  void adapt(const data::Dataset& dataset);
  /// @throws Error kInvalidArgument: an empty one, a text twice, more than `max_tokens`.
  void set_vocabulary(const std::vector<std::string>& vocabulary,
                      const std::vector<double>& idf_weights = {});
  /// By id; without the special tokens those of mask and OOV ids are left out.
  std::vector<std::string> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
};

struct IntegerLookupOptions {
  std::optional<int64_t> max_tokens = {};
  int64_t num_oov_indices = 1;
  std::optional<int64_t> mask_token = {};
  int64_t oov_token = -1;
  std::vector<int64_t> vocabulary = {};
  std::string vocabulary_file = {};
  std::vector<double> idf_weights = {};
  bool invert = false;
  LookupMode output_mode = "int";
  bool pad_to_max_tokens = false;
  /// How one of several OOV ids is chosen: the remainder, or a hash of the decimal digits.
  OovMethod oov_method = "floormod";
  std::optional<HashSalt> salt = {};  ///< With "farmhash" alone.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// The id of an integer in a vocabulary; the options are those of StringLookup. Tensors may have
/// any integer dtype; with `invert` the result is int64.
class STRATA_API IntegerLookup : public keras::Layer {
 public:
  explicit IntegerLookup(const IntegerLookupOptions& options = {});

  /// See StringLookup. Rows of `data` are the documents of "tf_idf".
  void adapt(const at::Tensor& data);
  void adapt(const data::Dataset& dataset);
  void set_vocabulary(const std::vector<int64_t>& vocabulary,
                      const std::vector<double>& idf_weights = {});
  std::vector<int64_t> get_vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;
};

}  // namespace strata::layers
