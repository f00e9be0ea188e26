#pragma once

#include <c10/core/ScalarType.h>

#include <vector>

namespace strata::keras::detail {

/// A layer whose outputs' shapes depend on the dtypes of its inputs, too. A graph tells them before
/// it asks for the shapes; other layers need not know.
class TakesInputDtypes {
 public:
  virtual ~TakesInputDtypes() = default;
  virtual void note_input_dtypes(const std::vector<at::ScalarType>& inputs) = 0;
};

}  // namespace strata::keras::detail
