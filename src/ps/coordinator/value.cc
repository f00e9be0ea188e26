#include "strata/ps/value.h"

namespace strata::ps {

std::string_view Value::kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNothing:
      return "nothing";
    case Kind::kTensor:
      return "Tensor";
    case Kind::kDouble:
      return "float64";
    case Kind::kInt:
      return "int64";
    case Kind::kBool:
      return "bool";
    case Kind::kString:
      return "string";
    case Kind::kList:
      return "list";
    case Kind::kResource:
      return "per-worker value";
  }
  return "unknown";
}

void Value::wrong_kind(Kind expected) const {
  strata::detail::throw_error(
      ErrorCode::kInvalidArgument,
      str_cat("[ps] Value: got ", kind_name(kind()), "; expected ", kind_name(expected)));
}

}  // namespace strata::ps
