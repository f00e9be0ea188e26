#pragma once

#include "core/proto_wire.h"

namespace strata::data::detail {

using strata::detail::put_bytes;
using strata::detail::put_key;
using strata::detail::put_varint;
using strata::detail::WireType;

inline constexpr strata::detail::WireText kExampleText = {"[data] parse_example",
                                                          "a tf.train.Example"};

/// With the errors of tf.train.Example.
class WireReader : public strata::detail::WireReader {
 public:
  WireReader(std::string_view message, std::string_view whole)
      : strata::detail::WireReader(message, whole, kExampleText) {}
};

}  // namespace strata::data::detail
