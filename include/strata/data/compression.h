#pragma once

namespace strata::data {

/// The compression of a file. Gzip and zlib need a strata that was built with zlib.
enum class Compression {
  kAuto,  ///< by the first bytes: gzip or plain (TFRecord files: zlib too), whatever the name
  kNone,
  kGzip,  ///< one or more gzip members, one behind the other
  kZlib,  ///< one zlib stream (RFC 1950), TensorFlow's "ZLIB"
};

}  // namespace strata::data
