#pragma once

#include "core/record_format.h"

namespace strata::data::detail {

using strata::detail::kRecordFooter;
using strata::detail::kRecordHeader;
using strata::detail::little_endian;
using strata::detail::parse_record_header;
using strata::detail::put_little_endian;

}  // namespace strata::data::detail
