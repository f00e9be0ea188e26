#include "keras_files/zip_reader.h"

#include <zip.h>

#include <algorithm>
#include <map>
#include <span>

#include "core/checked_size.h"
#include "core/join.h"
#include "strata/core/error.h"

namespace strata::keras_files {
namespace {

// What so little becomes needs no limit: JSON packs well. (Keras's own bound is 100 for a member,
// too; real weights in a `.keras` are stored.)
constexpr uint64_t kHarmlessMember = uint64_t{1} << 20;
constexpr uint64_t kHarmlessArchive = uint64_t{16} << 20;

struct Source {
  const ReadableFile* file;
  zip_uint64_t offset = 0;
  Status error = {};  ///< Of the file system: it is reported instead of libzip's own.
  zip_error_t zip_error = {};
};

zip_int64_t serve(void* user, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  auto& source = *static_cast<Source*>(user);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      source.offset = 0;
      return 0;
    case ZIP_SOURCE_READ:
      try {
        const size_t got = source.file->read(
            source.offset, {static_cast<std::byte*>(data), static_cast<size_t>(length)});
        source.offset += got;
        return static_cast<zip_int64_t>(got);
      } catch (...) {  // nothing may be thrown through C
        source.error = Status::from_current_exception();
        zip_error_set(&source.zip_error, ZIP_ER_READ, 0);
        return -1;
      }
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_STAT: {
      auto* stat = ZIP_SOURCE_GET_ARGS(zip_stat_t, data, length, &source.zip_error);
      if (stat == nullptr) return -1;
      zip_stat_init(stat);
      stat->size = source.file->size();
      stat->valid |= ZIP_STAT_SIZE;
      return sizeof(zip_stat_t);
    }
    case ZIP_SOURCE_SEEK: {
      const zip_int64_t offset = zip_source_seek_compute_offset(source.offset, source.file->size(),
                                                                data, length, &source.zip_error);
      if (offset < 0) return -1;
      source.offset = static_cast<zip_uint64_t>(offset);
      return 0;
    }
    case ZIP_SOURCE_TELL:
      return static_cast<zip_int64_t>(source.offset);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&source.zip_error, data, length);
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(
          ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
          ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_SUPPORTS, -1);
    default:
      zip_error_set(&source.zip_error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct Close {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

struct ZipReader::Impl {
  std::string name;
  ReadLimits limits;
  Source source;
  std::unique_ptr<zip_t, Discard> archive;  // destroyed before `source`
  std::vector<std::string> members;
  std::map<std::string, zip_uint64_t> indices;
};

ZipReader::ZipReader(const ReadableFile& file, std::string source, const ReadLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->name = std::move(source);
  impl_->source.file = &file;
  zip_error_t error = {};
  zip_source_t* bytes = zip_source_function_create(serve, &impl_->source, &error);
  STRATA_CHECK(bytes != nullptr, kResourceExhausted, "[keras_files] ", impl_->name, ": ",
               zip_error_strerror(&error));
  impl_->archive.reset(zip_open_from_source(bytes, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (impl_->archive == nullptr) {
    const std::string why = zip_error_strerror(&error);
    zip_source_free(bytes);
    zip_error_fini(&error);
    impl_->source.error.throw_if_error();
    throw Error(ErrorCode::kDataLoss,
                str_cat("[keras_files] ", impl_->name, ": got ", file.size(),
                        " bytes that are no whole zip archive (", why,
                        "); the file is damaged, cut short, or of another format"));
  }
  check_members();
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(impl_->archive.get(), 0));
  for (zip_uint64_t i = 0; i < count; ++i) {
    const char* member = zip_get_name(impl_->archive.get(), i, 0);
    STRATA_CHECK(member != nullptr && impl_->indices.emplace(member, i).second, kDataLoss,
                 "[keras_files] ", impl_->name, ": got member '",
                 member == nullptr ? "(unreadable)" : member, "' twice");
    impl_->members.emplace_back(member);
  }
}

ZipReader::~ZipReader() = default;

/// Held against what the archive says of itself; `read` holds each member against it.
void ZipReader::check_members() const {
  zip_t* archive = impl_->archive.get();
  const std::string where = str_cat("[keras_files] ", impl_->name, ": ");
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(archive, 0));
  STRATA_CHECK(count <= impl_->limits.parts, kResourceExhausted, where, "got ", count,
               " members; expected at most ", impl_->limits.parts,
               " (ReadLimits::parts raises it)");
  const uint64_t stored = impl_->source.file->size();
  uint64_t made = 0;
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t stat = {};
    zip_stat_init(&stat);
    if (zip_stat_index(archive, i, 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) continue;
    made = strata::detail::checked_sum(made, stat.size).value_or(UINT64_MAX);
  }
  STRATA_CHECK(made <= kHarmlessArchive || made / impl_->limits.expansion <= stored,
               kResourceExhausted, where, "got ", stored, " bytes whose members become ", made,
               "; expected at most ", impl_->limits.expansion,
               " times as many (ReadLimits::expansion raises it)");
  STRATA_CHECK(made <= stored || made - stored <= impl_->limits.unpacked_bytes, kResourceExhausted,
               where, "got ", stored, " bytes whose members become ", made, "; expected at most ",
               impl_->limits.unpacked_bytes, " more (ReadLimits::unpacked_bytes raises it)");
}

const std::vector<std::string>& ZipReader::members() const { return impl_->members; }

bool ZipReader::contains(const std::string& member) const {
  return impl_->indices.contains(member);
}

std::string ZipReader::read(const std::string& member) const {
  const std::string where = str_cat("[keras_files] ", impl_->name, ": member ", member, ": ");
  zip_t* archive = impl_->archive.get();
  const auto found = impl_->indices.find(member);
  if (found == impl_->indices.end()) {
    const std::string names =
        join(std::span(impl_->members).first(std::min<size_t>(8, impl_->members.size())));
    throw Error(ErrorCode::kDataLoss,
                str_cat(where, "missing; the archive holds ", names.empty() ? "nothing" : names));
  }
  zip_stat_t stat = {};
  zip_stat_init(&stat);
  STRATA_CHECK(zip_stat_index(archive, found->second, 0, &stat) == 0 &&
                   (stat.valid & ZIP_STAT_SIZE) != 0 && (stat.valid & ZIP_STAT_COMP_SIZE) != 0,
               kDataLoss, where, zip_strerror(archive));
  STRATA_CHECK(
      (stat.valid & ZIP_STAT_ENCRYPTION_METHOD) == 0 || stat.encryption_method == ZIP_EM_NONE,
      kDataLoss, where, "got an encrypted member; Keras writes none");
  const uint64_t stored = std::min<uint64_t>(stat.comp_size, impl_->source.file->size());
  const uint64_t expansion = impl_->limits.expansion;
  STRATA_CHECK(stat.size <= kHarmlessMember || stat.size / expansion <= stored, kResourceExhausted,
               where, "got ", stat.comp_size, " bytes that decompress to ", stat.size,
               "; expected at most ", expansion,
               " times as many (ReadLimits::expansion raises it)");
  const std::unique_ptr<zip_file_t, Close> file(zip_fopen_index(archive, found->second, 0));
  if (file == nullptr) {
    impl_->source.error.throw_if_error();
    throw Error(ErrorCode::kDataLoss, str_cat(where, "damaged (", zip_strerror(archive), ")"));
  }
  std::string bytes(stat.size, '\0');
  size_t done = 0;
  while (true) {
    // One byte more than expected: the checksum is compared at the end of the member.
    char beyond = 0;
    const bool full = done == bytes.size();
    const zip_int64_t got = full ? zip_fread(file.get(), &beyond, 1)
                                 : zip_fread(file.get(), bytes.data() + done, bytes.size() - done);
    impl_->source.error.throw_if_error();
    STRATA_CHECK(got >= 0 && !(full && got > 0), kDataLoss, where, "damaged (",
                 got < 0 ? zip_file_strerror(file.get()) : "longer than the archive states", ")");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  STRATA_CHECK(done == bytes.size(), kDataLoss, where, "got ", done, " bytes; expected ",
               bytes.size(), " (cut short)");
  return bytes;
}

}  // namespace strata::keras_files
