#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/estimator/head.h"

namespace strata::estimator::detail {

/// The losses of rows, before they are reduced, with their weights: equal shapes, or weights that
/// broadcast.
struct RowLosses {
  at::Tensor losses;
  at::Tensor weights = {};  ///< Undefined: 1 each.
};

class HeadImpl {
 public:
  HeadImpl(std::string name, LossReduction reduction)
      : name_(std::move(name)), reduction_(std::move(reduction)) {}
  virtual ~HeadImpl() = default;
  HeadImpl(const HeadImpl&) = delete;
  HeadImpl& operator=(const HeadImpl&) = delete;

  const std::string& name() const { return name_; }
  const LossReduction& reduction() const { return reduction_; }
  virtual int64_t logits_dimension() const = 0;
  virtual Features predictions(const at::Tensor& logits) const = 0;
  virtual std::map<std::string, ExportOutput> export_outputs() const = 0;
  virtual at::Tensor loss(const at::Tensor& logits, const Labels& labels,
                          const Features& features) const = 0;
  virtual std::vector<EvalMetric> metrics(const at::Tensor& logits, const Labels& labels,
                                          const Features& features,
                                          ModelContext& context) const = 0;

 protected:
  /// "accuracy", behind which a head's name is written.
  std::string metric(const std::string& key) const {
    return name_.empty() ? key : key + "/" + name_;
  }

 private:
  const std::string name_;
  const LossReduction reduction_;
};

/// A head with one kind of labels.
class SingleHead : public HeadImpl {
 public:
  SingleHead(std::string name, LossReduction reduction, WeightColumn weight_column)
      : HeadImpl(std::move(name), std::move(reduction)), weight_column_(std::move(weight_column)) {}

  at::Tensor loss(const at::Tensor& logits, const Labels& labels,
                  const Features& features) const final;
  std::vector<EvalMetric> metrics(const at::Tensor& logits, const Labels& labels,
                                  const Features& features, ModelContext& context) const final;

 protected:
  /// What metrics are computed of.
  struct Evaluated {
    const at::Tensor& logits;
    const at::Tensor& labels;   ///< As `labels_of` gives them.
    const at::Tensor& weights;  ///< `[rows, ..., 1]`, or undefined.
    ModelContext& context;
  };

  virtual const char* head() const = 0;
  /// The labels as the loss takes them. @throws Error kInvalidArgument: out of their range.
  virtual at::Tensor labels_of(const Feature& given, const at::Tensor& logits) const = 0;
  /// The losses of rows, `[rows, ..., 1]` or as labels.
  virtual at::Tensor losses(const at::Tensor& labels, const at::Tensor& logits) const = 0;
  virtual std::vector<EvalMetric> more_metrics(const Evaluated& evaluated) const = 0;

  /// With a last dimension, as the logits have it. @throws Error kInvalidArgument: another shape.
  at::Tensor shaped(const at::Tensor& labels, const at::Tensor& logits, int64_t dimension) const;
  /// The weighted mean of values over all rows.
  EvalMetric mean(const std::string& key, const at::Tensor& values, const Evaluated& of) const;

 private:
  at::Tensor weights_of(const Features& features, const at::Tensor& losses) const;
  RowLosses row_losses(const at::Tensor& labels, const at::Tensor& logits,
                       const Features& features) const;
  at::Tensor labels_of_head(const Labels& labels, const at::Tensor& logits) const;

  const WeightColumn weight_column_;
};

/// Texts of classes: words, or numbers where there are none.
class ClassNames {
 public:
  /// @throws Error kInvalidArgument: another number of words, or a word twice.
  ClassNames(int64_t n_classes, const std::vector<std::string>& words);

  bool has_words() const { return index_.has_value(); }
  int64_t size() const { return table_.size(0); }
  std::string at(int64_t class_id) const;
  /// Class numbers of words; below 0 for unknown ones.
  at::Tensor ids_of(const Feature& words) const;
  /// The texts of class numbers, `[rows, ..., width]`.
  Feature texts_of(const at::Tensor& class_ids) const;
  /// `all_class_ids` and `all_classes` of so many rows.
  void add_all(const at::Tensor& logits, Features& predictions) const;
  Feature all_of(const at::Tensor& logits) const;

 private:
  std::optional<feature_column::FeatureColumn> index_;
  at::Tensor table_;  // uint8 [n_classes, width]
};

/// Refuses numbers out of a range, on the host; in a graph as a node of it.
void check_range(const at::Tensor& values, double least, double most, const std::string& message);

/// Those in (0, 1). @throws Error kInvalidArgument
void check_thresholds(const std::vector<double>& thresholds, const char* head);

/// The signatures of classifiers: `classification`, which is the default, and `predict`.
std::map<std::string, ExportOutput> classifier_outputs();

/// "%g"
std::string threshold_text(double threshold);

/// The formulas of losses. All keep the shape of the logits.
at::Tensor sigmoid_cross_entropy(const at::Tensor& labels, const at::Tensor& logits);

}  // namespace strata::estimator::detail
