#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// The inner loops of `resize`, in a file of its own for its compiler options.
namespace strata::data::detail {

/// Between value `low` and value `high` of a row (or between rows), `part` of the way.
struct Lerp {
  int32_t low;
  int32_t high;
  float part;
};

void lerp_columns(const uint8_t* row, std::span<const Lerp> columns, int64_t channels, float* out);
void lerp_columns(const float* row, std::span<const Lerp> columns, int64_t channels, float* out);

/// out = a + (b - a) * part.
void lerp_rows(const uint8_t* a, const uint8_t* b, float part, size_t size, float* out);
void lerp_rows(const float* a, const float* b, float part, size_t size, float* out);

/// Weighted sums: for each result, where it begins and the weights from there on.
class Spans {
 public:
  struct Span {
    int64_t first;
    std::span<const float> weights;
  };

  /// `weights` are scaled to a sum of 1.
  void add(int64_t first, std::span<const double> weights);
  size_t size() const { return first_.size(); }
  Span operator[](size_t i) const {
    return {first_[i], {weights_.data() + begin_[i], begin_[i + 1] - begin_[i]}};
  }

 private:
  std::vector<int64_t> first_;
  std::vector<size_t> begin_ = {0};
  std::vector<float> weights_;
};

void weigh_columns(const uint8_t* row, const Spans& columns, int64_t channels, float* out);
void weigh_columns(const float* row, const Spans& columns, int64_t channels, float* out);
void weigh_rows(const float* rows, const Spans& spans, size_t which, size_t row_size, float* out);

}  // namespace strata::data::detail
