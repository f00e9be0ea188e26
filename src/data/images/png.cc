#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "data/bytes.h"
#include "data/images/image_codec.h"

namespace strata::data {
namespace {

/// As in jpeg.cc: libpng must not be returned to after an error, so functions handed to `guarded`
/// own nothing.
struct PngErrors {
  std::jmp_buf jump;
  std::array<char, 200> message{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* errors = static_cast<PngErrors*>(png_get_error_ptr(png));
  std::strncpy(errors->message.data(), message, errors->message.size() - 1);
  std::longjmp(errors->jump, 1);
}

void on_warning(png_structp, png_const_charp) {}

template <class Fn>
[[gnu::noinline]] bool guarded(PngErrors& errors, Fn fn) {
  if (setjmp(errors.jump) != 0) return false;
  fn();
  return true;
}

class Reader {
 public:
  Reader(const char* call, std::string_view bytes, std::string_view name)
      : call_(call), bytes_(bytes), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning);
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    STRATA_CHECK(info_ != nullptr, kResourceExhausted, "[data] ", call, ": libpng cannot start");
    png_set_read_fn(png_, this, read_bytes);
    limit();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  void read_header() {
    run([&] { png_read_info(png_, info_); });
  }
  void check_size(const DecodeOptions& options) const {
    detail::check_size(call_, bytes_, offset_, height(), width(), 4, options);
  }

  /// As in the file; a palette's colours count.
  int natural_channels() const {
    if (color_type() == PNG_COLOR_TYPE_PALETTE) return has_transparency() ? 4 : 3;
    return png_get_channels(png_, info_);
  }

  /// What libpng is to make of the pixels. `channels` is 1 to 4.
  void set_up(int channels) {
    run([&] {
      const bool grey = !(color_type() & PNG_COLOR_MASK_COLOR);
      const int depth = png_get_bit_depth(png_, info_);
      const bool alpha = color_type() & PNG_COLOR_MASK_ALPHA;
      if (channels % 2 == 0) {
        if (!alpha && has_transparency()) {
          png_set_tRNS_to_alpha(png_);
        } else if (!alpha) {
          png_set_add_alpha(png_, (1u << depth) - 1, PNG_FILLER_AFTER);
        }
      } else if (alpha || has_transparency()) {
        png_set_strip_alpha(png_);
      }
      if (depth > 8) png_set_strip_16(png_);
      png_set_packing(png_);
      passes_ = png_set_interlace_handling(png_);
      if (color_type() == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (grey && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
      constexpr double kRed = 0.299, kGreen = 0.587;  // ITU-R BT.601
      if (channels < 3 && !grey) png_set_rgb_to_gray(png_, PNG_ERROR_ACTION_NONE, kRed, kGreen);
      if (channels >= 3 && grey) png_set_gray_to_rgb(png_);
      png_read_update_info(png_, info_);
    });
  }

  void read_pixels(uint8_t* pixels, int64_t row_bytes) {
    const auto made = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    STRATA_DCHECK(made == row_bytes);
    run([&] {
      const int64_t rows = height();
      for (int pass = 0; pass < passes_; ++pass)
        for (int64_t r = 0; r < rows; ++r) png_read_row(png_, pixels + r * row_bytes, nullptr);
      png_read_end(png_, nullptr);  // the checksums of what is left
    });
  }

  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }

 private:
  template <class Fn>
  void run(Fn fn) {
    if (guarded(errors_, fn)) return;
    throw Error(ErrorCode::kDataLoss,
                str_cat(detail::where(call_, name_, offset_), "got damaged data (",
                        errors_.message.data(), "); expected a whole PNG image"));
  }

  /// Text and profiles are unpacked into memory. What nothing here uses is passed over; profiles
  /// say how colours become grey.
  void limit() {
    constexpr png_uint_32 kMaxSide = 1'000'000;
    png_set_user_limits(png_, kMaxSide, kMaxSide);
    constexpr png_alloc_size_t kChunkBytes = png_alloc_size_t{8} << 20;
    constexpr png_uint_32 kChunks = 1000;
    png_set_chunk_malloc_max(png_, kChunkBytes);
    png_set_chunk_cache_max(png_, kChunks);
    static constexpr png_byte kUnused[] = "iTXt\0tEXt\0zTXt\0sPLT\0eXIf";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kUnused, 5);
  }

  int color_type() const { return png_get_color_type(png_, info_); }
  bool has_transparency() const { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }

  static void read_bytes(png_structp png, png_bytep out, size_t size) {
    auto* self = static_cast<Reader*>(png_get_io_ptr(png));
    if (size > self->bytes_.size() - self->offset_) {
      self->offset_ = self->bytes_.size();
      png_error(png, "the file is truncated");
    }
    std::memcpy(out, self->bytes_.data() + self->offset_, size);
    self->offset_ += size;
  }

  const char* call_;
  std::string_view bytes_;
  std::string_view name_;
  size_t offset_ = 0;
  PngErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

}  // namespace

at::Tensor decode_png(std::string_view bytes, const DecodeOptions& options) {
  const int wanted = options.channels;
  STRATA_CHECK(wanted == 0 || wanted == 1 || wanted == 3 || wanted == 4, kInvalidArgument,
               "[data] decode_png: got channels ", wanted, "; expected 0, 1, 3 or 4");
  Reader reader("decode_png", bytes, options.name);
  reader.read_header();
  reader.check_size(options);
  const int channels = wanted != 0 ? wanted : reader.natural_channels();
  reader.set_up(channels);
  const int64_t height = reader.height(), width = reader.width();
  at::Tensor image = detail::empty_tensor({height, width, channels}, at::kByte);
  reader.read_pixels(static_cast<uint8_t*>(image.mutable_data_ptr()), width * channels);
  return image;
}

ImageInfo detail::png_info(std::string_view bytes, std::string_view name) {
  Reader reader("image_info", bytes, name);
  reader.read_header();
  return {.format = "PNG",
          .height = reader.height(),
          .width = reader.width(),
          .channels = reader.natural_channels()};
}

namespace {

struct Writer {
  PngErrors errors;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors, on_error, on_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  std::string bytes;

  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }

  static void append(png_structp png, png_bytep data, size_t size) {
    static_cast<Writer*>(png_get_io_ptr(png))
        ->bytes.append(reinterpret_cast<const char*>(data), size);
  }
  static void flush(png_structp) {}
};

}  // namespace

std::string encode_png(const at::Tensor& image, int level) {
  STRATA_CHECK(level >= -1 && level <= 9, kInvalidArgument, "[data] encode_png: got level ", level,
               "; expected 0 to 9, or -1 for zlib's own");
  const at::Tensor dense = detail::image_to_encode("encode_png", image, 4);
  const auto* pixels = static_cast<const uint8_t*>(dense.const_data_ptr());
  const int64_t row_bytes = dense.size(1) * dense.size(2);
  constexpr std::array<int, 4> kTypes = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                         PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
  const int type = kTypes[static_cast<size_t>(dense.size(2) - 1)];
  Writer writer;
  STRATA_CHECK(writer.info != nullptr, kResourceExhausted,
               "[data] encode_png: libpng cannot start");
  const bool done = guarded(writer.errors, [&] {
    png_set_write_fn(writer.png, &writer, Writer::append, Writer::flush);
    png_set_compression_level(writer.png, level);
    constexpr int kBits = 8;
    png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(dense.size(1)),
                 static_cast<png_uint_32>(dense.size(0)), kBits, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(writer.png, writer.info);
    for (int64_t r = 0; r < dense.size(0); ++r) png_write_row(writer.png, pixels + r * row_bytes);
    png_write_end(writer.png, nullptr);
  });
  STRATA_CHECK(done, kInternal, "[data] encode_png: libpng: ", writer.errors.message.data());
  return std::move(writer.bytes);
}

}  // namespace strata::data
