#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// `strata inspect PATH`: a table of kinds of files. Each kind is a file of its own, inspect_*.cc,
// with a recogniser and a printer; inspect.cc lists them.
namespace strata::tools {

struct InspectOptions {
  int64_t limit = 5;  ///< elements to show
};

/// What recognisers look at.
struct InspectPath {
  std::string path;
  bool is_folder = false;
  uint64_t size = 0;  ///< bytes
  std::string start =
      {};  ///< first 512 bytes, decompressed where the file is gzip; empty for folders
  bool gzipped = false;

  std::string name() const { return path.substr(path.rfind('/') + 1); }
};

struct InspectKind {
  const char* name;
  bool (*recognises)(const InspectPath& path);
  /// Prints to standard output. @throws Error what is wrong with the file.
  void (*print)(const InspectPath& path, const InspectOptions& options);
};

extern const InspectKind kInspectEvents;  // before the next, whose container it has
extern const InspectKind kInspectTfRecord;
extern const InspectKind kInspectIdx;
extern const InspectKind kInspectImage;
extern const InspectKind kInspectImageFolder;
extern const InspectKind kInspectCheckpoint;
extern const InspectKind kInspectSafetensors;
extern const InspectKind kInspectKeras;
extern const InspectKind kInspectKerasH5;
extern const InspectKind kInspectOnnx;
extern const InspectKind kInspectGraph;
extern const InspectKind kInspectCsv;
extern const InspectKind kInspectText;  // last: any text

/// `bytes` between quotes, shortened to `limit` characters, what is not printable as \xNN.
std::string quoted(std::string_view bytes, size_t limit = 60);

/// "1 record", "2 records".
std::string counted(int64_t count, const char* what);

}  // namespace strata::tools
