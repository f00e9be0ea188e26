#pragma once

#include <string>
#include <string_view>

namespace strata::keras::detail {

/// The next of `dense`, `dense_1`, ... in this process. Keras does the same; names only have to
/// differ within a model.
std::string default_name(std::string_view class_name);

}  // namespace strata::keras::detail
