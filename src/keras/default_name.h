#pragma once

#include <string>
#include <string_view>

namespace strata::keras::detail {

/// The next of `dense`, `dense_1`, ... in this process. Keras does the same; names only have to
/// differ within a model.
std::string default_name(std::string_view class_name);

/// While it lives, the next default name that this thread asks for is `name`: for layers whose owner names
/// them.
class NextDefaultName {
 public:
  explicit NextDefaultName(std::string name);
  ~NextDefaultName();
  NextDefaultName(const NextDefaultName&) = delete;
  NextDefaultName& operator=(const NextDefaultName&) = delete;
};

}  // namespace strata::keras::detail
