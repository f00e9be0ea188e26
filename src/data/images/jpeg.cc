#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which needs it
// jpeglib.h is not self-contained
#include <jpeglib.h>
// behind it
#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "data/bytes.h"
#include "data/images/image_codec.h"

namespace strata::data {
namespace {

/// libjpeg calls back for errors and must not be returned to: it jumps to where `guarded` waits.
/// So functions handed to `guarded` own nothing.
struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands it back as a pointer to this
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void on_error(j_common_ptr common) {
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  errors->manager.format_message(common, errors->message.data());
  std::longjmp(errors->jump, 1);
}

// A level below 0 is damage that libjpeg continues behind.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  auto* errors = reinterpret_cast<JpegErrors*>(common->err);
  if (errors->manager.num_warnings++ == 0)
    errors->manager.format_message(common, errors->message.data());
}

template <class Fn>
[[gnu::noinline]] bool guarded(JpegErrors& errors, Fn fn) {
  if (setjmp(errors.jump) != 0) return false;
  fn();
  return true;
}

void init(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  errors.message[0] = '\0';
}

void no_source_call(j_decompress_ptr) {}

boolean out_of_bytes(j_decompress_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  std::snprintf(errors->message.data(), errors->message.size(), "the file is truncated");
  std::longjmp(errors->jump, 1);
}

void skip_bytes(j_decompress_ptr jpeg, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > jpeg->src->bytes_in_buffer) {
    jpeg->src->next_input_byte += jpeg->src->bytes_in_buffer;
    jpeg->src->bytes_in_buffer = 0;
    out_of_bytes(jpeg);
  }
  jpeg->src->next_input_byte += count;
  jpeg->src->bytes_in_buffer -= static_cast<size_t>(count);
}

/// Values that any file may have in all of its scans together: half a second's work.
constexpr int64_t kMostScanned = 8 * detail::kHarmless;

/// Held against before each scan: the passes of a progressive image cost time, not bytes.
struct ScanLimit {
  jpeg_progress_mgr manager{};  // first, as in Errors
  int max_scans = 0;
  int64_t max_passes = 0;  // over all values, by the file's size
  bool reached = false;

  static void check(j_common_ptr common) {
    auto* limit = reinterpret_cast<ScanLimit*>(common->progress);
    const auto* jpeg = reinterpret_cast<j_decompress_ptr>(common);
    const int scan = jpeg->input_scan_number;
    if (scan <= limit->max_scans && scan <= limit->max_passes) return;
    limit->reached = true;
    std::longjmp(reinterpret_cast<JpegErrors*>(common->err)->jump, 1);
  }
};

class Decompressor {
 public:
  Decompressor(const char* call, std::string_view bytes, std::string_view name)
      : call_(call), bytes_(bytes), name_(name) {
    init(errors_);
    jpeg_.err = &errors_.manager;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = no_source_call;
    source_.fill_input_buffer = out_of_bytes;
    source_.skip_input_data = skip_bytes;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = no_source_call;
    run([&] { jpeg_create_decompress(&jpeg_); });
    jpeg_.src = &source_;
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&jpeg_); }

  jpeg_decompress_struct& jpeg() { return jpeg_; }
  void read_header() {
    run([&] { jpeg_read_header(&jpeg_, TRUE); });
  }

  /// Of the image as it is, whatever it will be reduced to: a progressive one is kept whole.
  void limit(const DecodeOptions& options) {
    detail::check_size(call_, bytes_, offset(), jpeg_.image_height, jpeg_.image_width,
                       jpeg_.num_components, options);
    // Two bytes a coefficient, blocks and sampling rounded up, and libjpeg's own tables. libjpeg
    // holds this against memory that it would keep in temporary files, and has none here.
    constexpr int64_t kOwn = int64_t{16} << 20;
    jpeg_.mem->max_memory_to_use = static_cast<long>(4 * options.max_values + kOwn);
    scans_.max_scans = options.max_scans;
    const auto values =
        int64_t{jpeg_.image_height} * jpeg_.image_width * jpeg_.num_components;  // checked above
    scans_.max_passes =
        std::max(kMostScanned / values,
                 static_cast<int64_t>(bytes_.size()) / (values / options.max_values_per_byte + 1));
    scans_.manager.progress_monitor = ScanLimit::check;
    jpeg_.progress = &scans_.manager;
  }

  /// @throws Error kDataLoss with what libjpeg says.
  template <class Fn>
  void run(Fn fn) {
    if (!guarded(errors_, fn)) fail();
  }

  [[noreturn]] void fail() const {
    STRATA_CHECK(!scans_.reached, kResourceExhausted, where(), "got more than ",
                 std::min<int64_t>(scans_.max_scans, scans_.max_passes), " scans of an image of ",
                 jpeg_.image_height, " x ", jpeg_.image_width, " x ", jpeg_.num_components, " in ",
                 bytes_.size(), " bytes; expected at most so many (DecodeOptions::",
                 scans_.max_scans <= scans_.max_passes ? "max_scans" : "max_values_per_byte",
                 " raises it)");
    const int code = errors_.manager.msg_code;
    STRATA_CHECK(code != JERR_OUT_OF_MEMORY && code != JERR_NO_BACKING_STORE &&
                     code != JERR_TFILE_CREATE && code != JERR_TFILE_WRITE,
                 kResourceExhausted, where(), "libjpeg has too little memory for it (",
                 errors_.message.data(), ")");
    throw Error(ErrorCode::kDataLoss, str_cat(where(), "got damaged data (", errors_.message.data(),
                                              "); expected a whole JPEG image"));
  }

  bool warned() const { return errors_.manager.num_warnings > 0; }

  std::string where() const { return detail::where(call_, name_, offset()); }
  size_t offset() const { return bytes_.size() - source_.bytes_in_buffer; }

 private:
  const char* call_;
  std::string_view bytes_;
  std::string_view name_;
  JpegErrors errors_;
  ScanLimit scans_;
  jpeg_source_mgr source_{};
  jpeg_decompress_struct jpeg_{};
};

bool is_cmyk(const jpeg_decompress_struct& jpeg) {
  return jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
}

/// The window in the image as it is: all of it, if none is asked for.
ImageBox window_of(const Decompressor& decompressor, const jpeg_decompress_struct& jpeg,
                   const ImageBox& window) {
  const int64_t height = jpeg.image_height, width = jpeg.image_width;
  if (window.height == 0 && window.width == 0) return {.height = height, .width = width};
  STRATA_CHECK(window.top >= 0 && window.left >= 0 && window.height > 0 && window.width > 0 &&
                   window.top <= height - window.height && window.left <= width - window.width,
               kInvalidArgument, decompressor.where(), "got a window of ", window.height, " x ",
               window.width, " at (", window.top, ", ", window.left, ") of an image of ", height,
               " x ", width, "; expected a window inside of it");
  return window;
}

/// What covers the window in an image that is 1 / `by` as large.
ImageBox reduced(const ImageBox& window, int64_t by) {
  const int64_t top = window.top / by, left = window.left / by;
  return {.top = top,
          .left = left,
          .height = (window.top + window.height + by - 1) / by - top,
          .width = (window.left + window.width + by - 1) / by - left};
}

// The largest of 1, 2, 4, 8 by which the window may shrink.
unsigned reduction(const ImageBox& window, const DecodeOptions& options) {
  if (options.min_height <= 0 && options.min_width <= 0) return 1;
  for (const unsigned by : {8u, 4u, 2u}) {
    const ImageBox small = reduced(window, by);
    if (small.height >= options.min_height && small.width >= options.min_width) return by;
  }
  return 1;
}

// Adobe's CMYK is inverted.
void cmyk_to_rgb(const uint8_t* cmyk, int64_t pixels, bool inverted, uint8_t* rgb) {
  for (int64_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int black = inverted ? cmyk[3] : 255 - cmyk[3];
    for (int c = 0; c < 3; ++c)
      rgb[c] = static_cast<uint8_t>(black * (inverted ? cmyk[c] : 255 - cmyk[c]) / 255);
  }
}

/// Part of an image, whose header was read.
at::Tensor decode_window(Decompressor& decompressor, const ImageBox& window, int channels,
                         bool from_cmyk, const DecodeOptions& options) {
  jpeg_decompress_struct& jpeg = decompressor.jpeg();
  at::Tensor image = detail::empty_tensor({window.height, window.width, channels}, at::kByte);
  auto* pixels = static_cast<uint8_t*>(image.mutable_data_ptr());
  // A column more on each side: chroma is smoothed over the neighbours that a pixel has.
  const int64_t first = std::max<int64_t>(window.left - 1, 0);
  const int64_t last = std::min<int64_t>(window.left + window.width + 1, jpeg.output_width);
  auto begin = static_cast<JDIMENSION>(first);
  auto columns = static_cast<JDIMENSION>(last - first);
  decompressor.run([&] {
    jpeg_start_decompress(&jpeg);
    jpeg_crop_scanline(&jpeg, &begin, &columns);  // to whole blocks
    jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(window.top));
  });
  const int stored = from_cmyk ? 4 : channels;
  std::vector<uint8_t> line(static_cast<size_t>(columns) * static_cast<size_t>(stored));
  const size_t skipped = static_cast<size_t>(window.left - begin) * static_cast<size_t>(stored);
  const size_t row_bytes = static_cast<size_t>(window.width) * static_cast<size_t>(channels);
  uint8_t* const in_line = line.data();
  decompressor.run([&, in_line] {
    for (int64_t row = 0; row < window.height; ++row, pixels += row_bytes) {
      JSAMPROW to = in_line;
      jpeg_read_scanlines(&jpeg, &to, 1);
      if (from_cmyk) {
        cmyk_to_rgb(in_line + skipped, window.width, jpeg.saw_Adobe_marker == TRUE, pixels);
      } else {
        std::memcpy(pixels, in_line + skipped, row_bytes);
      }
    }
  });
  if (options.strict && decompressor.warned()) decompressor.fail();
  return image;
}

}  // namespace

at::Tensor decode_jpeg(std::string_view bytes, const DecodeOptions& options) {
  STRATA_CHECK(options.channels == 0 || options.channels == 1 || options.channels == 3,
               kInvalidArgument, "[data] decode_jpeg: got channels ", options.channels,
               "; expected 0, 1 or 3");
  Decompressor decompressor("decode_jpeg", bytes, options.name);
  decompressor.read_header();
  decompressor.limit(options);
  jpeg_decompress_struct& jpeg = decompressor.jpeg();
  const int channels = options.channels != 0 ? options.channels : jpeg.num_components == 1 ? 1 : 3;
  const bool from_cmyk = is_cmyk(jpeg);
  STRATA_CHECK(!from_cmyk || channels == 3, kDataLoss, decompressor.where(),
               "got a CMYK image for 1 channel; expected channels 3");
  jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : from_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg.do_fancy_upsampling = options.fancy_upsampling ? TRUE : FALSE;
  jpeg.dct_method = options.accurate_dct ? JDCT_ISLOW : JDCT_IFAST;
  jpeg.scale_num = 1;
  const ImageBox whole_window = window_of(decompressor, jpeg, options.window);
  jpeg.scale_denom = reduction(whole_window, options);
  const ImageBox window = reduced(whole_window, jpeg.scale_denom);
  decompressor.run([&] { jpeg_calc_output_dimensions(&jpeg); });
  if (window.height < jpeg.output_height || window.width < jpeg.output_width) {
    return decode_window(decompressor, window, channels, from_cmyk, options);
  }
  const int64_t height = jpeg.output_height, width = jpeg.output_width;
  detail::check_size("decode_jpeg", bytes, decompressor.offset(), height, width, channels, options);

  at::Tensor image = detail::empty_tensor({height, width, channels}, at::kByte);
  auto* const pixels = static_cast<uint8_t*>(image.mutable_data_ptr());
  std::vector<uint8_t> cmyk_row(from_cmyk ? static_cast<size_t>(width) * 4 : 0);
  uint8_t* const cmyk = cmyk_row.data();
  decompressor.run([&, pixels, cmyk] {
    jpeg_start_decompress(&jpeg);
    constexpr int kRows = 8;
    while (jpeg.output_scanline < jpeg.output_height) {
      uint8_t* const row = pixels + jpeg.output_scanline * width * channels;
      if (from_cmyk) {
        JSAMPROW to = cmyk;
        jpeg_read_scanlines(&jpeg, &to, 1);
        cmyk_to_rgb(cmyk, width, jpeg.saw_Adobe_marker == TRUE, row);
      } else {
        JSAMPROW rows[kRows];
        for (int r = 0; r < kRows; ++r) rows[r] = row + r * width * channels;
        const JDIMENSION left = jpeg.output_height - jpeg.output_scanline;
        jpeg_read_scanlines(&jpeg, rows, left < kRows ? left : kRows);
      }
    }
  });
  if (options.strict && decompressor.warned()) decompressor.fail();
  return image;
}

ImageInfo detail::jpeg_info(std::string_view bytes, std::string_view name) {
  Decompressor decompressor("image_info", bytes, name);
  decompressor.read_header();
  const jpeg_decompress_struct& jpeg = decompressor.jpeg();
  return {.format = "JPEG",
          .height = jpeg.image_height,
          .width = jpeg.image_width,
          .channels = jpeg.num_components == 1 ? 1 : 3};
}

namespace {

// libjpeg's own destination for memory grows by malloc.
struct Compressor {
  JpegErrors errors;
  jpeg_compress_struct jpeg{};
  unsigned char* memory = nullptr;
  unsigned long size = 0;

  Compressor() {
    init(errors);
    jpeg.err = &errors.manager;
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor() {
    jpeg_destroy_compress(&jpeg);
    std::free(memory);
  }
};

}  // namespace

std::string encode_jpeg(const at::Tensor& image, const JpegOptions& options) {
  STRATA_CHECK(options.quality >= 0 && options.quality <= 100, kInvalidArgument,
               "[data] encode_jpeg: got quality ", options.quality, "; expected 0 to 100");
  const at::Tensor dense = detail::image_to_encode("encode_jpeg", image, 3);
  const auto* pixels = static_cast<const uint8_t*>(dense.const_data_ptr());
  const int64_t row_bytes = dense.size(1) * dense.size(2);
  Compressor compressor;
  jpeg_compress_struct& jpeg = compressor.jpeg;
  const bool done = guarded(compressor.errors, [&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &compressor.memory, &compressor.size);
    jpeg.image_height = static_cast<JDIMENSION>(dense.size(0));
    jpeg.image_width = static_cast<JDIMENSION>(dense.size(1));
    jpeg.input_components = static_cast<int>(dense.size(2));
    jpeg.in_color_space = dense.size(2) == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&jpeg);
    if (!options.chroma_downsampling)
      jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(pixels + jpeg.next_scanline * row_bytes);
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  STRATA_CHECK(done, kInternal, "[data] encode_jpeg: libjpeg: ", compressor.errors.message.data());
  return {reinterpret_cast<const char*>(compressor.memory), compressor.size};
}

}  // namespace strata::data
