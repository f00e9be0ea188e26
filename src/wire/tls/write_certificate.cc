#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "wire/tcp/file_descriptor.h"
#include "wire/tls/certificates.h"

namespace strata::wire {
namespace {

void write_secret(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());  // one that others may read is not overwritten
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool written = file.open() && ::write(file.get(), text.data(), text.size()) ==
                                          static_cast<ssize_t>(text.size());
  STRATA_CHECK(written, kPermissionDenied, "[wire] write_certificate: ", path,
               " cannot be written: ", std::strerror(errno));
}

}  // namespace

void write_certificate(const Certificate& certificate, const std::string& folder,
                       const std::string& name) {
  const FileSystem& disk = local_file_system();
  disk.make_folders(folder);
  const auto file = disk.create(join_path(folder, name + ".pem"));
  file->append(std::as_bytes(std::span(certificate.certificate)));
  file->close();
  write_secret(join_path(folder, name + ".key"), certificate.key);
}

}  // namespace strata::wire
