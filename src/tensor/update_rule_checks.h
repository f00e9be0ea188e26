#pragma once

namespace strata::tensor {

/// Of the options of update rules. @throws Error kInvalidArgument: names rule, option and value.
void check_fraction(const char* rule, const char* what, double value);
void check_not_negative(const char* rule, const char* what, double value);

}  // namespace strata::tensor
