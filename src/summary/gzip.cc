#include "summary/gzip.h"

#include <zlib.h>

#include "strata/core/error.h"

namespace strata::summary::detail {

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16, kMemory = 8;
  STRATA_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemory,
                            Z_DEFAULT_STRATEGY) == Z_OK,
               kResourceExhausted, "[summary] gzip: zlib found no memory");
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  STRATA_CHECK(result == Z_STREAM_END, kInvalidArgument, "[summary] gzip: got ", bytes.size(),
               " bytes; expected less than 4 GiB");
  return out;
}

}  // namespace strata::summary::detail
