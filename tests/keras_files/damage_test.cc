// Files that are broken, cut, or made to do harm: an error that names member and cause, never more.
#include <gtest/gtest.h>

#include "keras_files/check_weights.h"
#include "keras_files/golden.h"
#include "keras_files/keras_archive.h"
#include "keras_files/legacy_model.h"
#include "keras_files/weights_file.h"
#include "keras_files/zip_writer.h"
#include "support/expect_error.h"

namespace strata::keras_files {
namespace {

using test::golden_path;

std::span<const std::byte> bytes_in(const std::string& text) {
  return std::as_bytes(std::span(text));
}

KerasArchive parse(const std::string& bytes) {
  return parse_keras_archive(bytes_in(bytes), "m.keras");
}

using Members = std::vector<std::pair<std::string, std::string>>;

std::string zip_of(const Members& members) {
  std::string bytes;
  ZipWriter zip([&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  for (const auto& [name, content] : members) zip.add(name, content);
  zip.finish();
  return bytes;
}

const std::string kConfig =
    R"({"class_name": "Sequential", "config": {"name": "m", "layers": []}})";

TEST(DamagedArchiveTest, MissingMembersAreNamed) {
  expect_error(
      [] {
        parse(zip_of({{"metadata.json", "{}"}}));
      },
      ErrorCode::kDataLoss,
      "[keras_files] m.keras: member config.json: missing; the archive holds "
      "metadata.json");
  expect_error(
      [] {
        parse(zip_of({{"config.json", kConfig}}));
      },
      ErrorCode::kDataLoss,
      "[keras_files] m.keras: member model.weights.h5: missing; the archive holds "
      "config.json");
  expect_error(
      [] {
        parse(zip_of({{"config.json", kConfig}, {"model.weights.npz", ""}}));
      },
      ErrorCode::kUnimplemented,
      "[keras_files] m.keras: got weights in NumPy's format (model.weights.npz); save the "
      "model with Keras's default format");
}

TEST(DamagedArchiveTest, MembersThatAreSomethingElseAreNamed) {
  expect_error_containing(
      [] {
        parse(zip_of({{"config.json", "{\"a\": "}}));
      },
      ErrorCode::kDataLoss, "[keras_files] m.keras: member config.json: ");
  expect_error(
      [] {
        parse(zip_of({{"config.json", "[1]"}}));
      },
      ErrorCode::kDataLoss,
      "[keras_files] m.keras: member config.json: got no object with 'class_name' and "
      "'config'; expected a Keras model");
  expect_error_containing(
      [] {
        parse(zip_of({{"config.json", kConfig}, {"model.weights.h5", "no HDF5"}}));
      },
      ErrorCode::kDataLoss,
      "[keras_files] m.keras: member model.weights.h5: got 7 bytes that are no whole HDF5 file (");
  expect_error_containing([] { parse("no zip"); }, ErrorCode::kDataLoss,
                          "[keras_files] m.keras: got 6 bytes that are no whole zip archive (");
  expect_error([] { parse(""); }, ErrorCode::kDataLoss,
               "[keras_files] m.keras: member config.json: missing; the archive holds nothing");
  expect_error_containing(
      [] {
        parse(zip_of({{"config.json", kConfig}, {"config.json", kConfig}}));
      },
      ErrorCode::kDataLoss, "[keras_files] m.keras: got 352 bytes that are no whole zip archive (");
  const std::string weights = serialize_weights({});
  expect_error(
      [&] {
        parse(zip_of(
            {{"config.json", kConfig}, {"model.weights.h5", weights}, {"assets/../../x", "y"}}));
      },
      ErrorCode::kDataLoss,
      "[keras_files] m.keras: member assets/../../x: got a name that leads out of the archive");
}

TEST(DamagedArchiveTest, ABombIsRefusedBeforeItGoesOff) {
  std::string bytes = zip_of({{"config.json", kConfig}});
  // The uncompressed size, in the member's header and in the list at the end.
  const size_t list = bytes.find("PK\x01\x02");
  ASSERT_NE(list, std::string::npos);
  for (const size_t offset : {size_t{22}, list + 24}) bytes.replace(offset, 4, "\0\0\0\x70", 4);
  expect_error_containing([&] { parse(bytes); }, ErrorCode::kResourceExhausted,
                          "[keras_files] m.keras: ");
}

TEST(DamagedArchiveTest, NoCutIsOverlooked) {
  const std::string bytes = read_file(golden_path("keras_files_mlp.keras"));
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 13 : 1009) {
    expect_error_containing([&] { parse(bytes.substr(0, size)); }, ErrorCode::kDataLoss,
                            "[keras_files] m.keras: ");
  }
  expect_error_containing([&] { parse(bytes.substr(0, bytes.size() - 1)); }, ErrorCode::kDataLoss,
                          "[keras_files] m.keras: ");
}

TEST(DamagedArchiveTest, NoFlippedBitChangesWhatIsRead) {
  const std::string bytes = read_file(golden_path("keras_files_mlp.keras"));
  const KerasArchive expected = parse(bytes);
  int refused = 0, harmless = 0;
  for (size_t at = 0; at < bytes.size(); at += 37) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    try {
      const KerasArchive archive = parse(damaged);  // a date, an attribute of the zip
      EXPECT_EQ(archive.config, expected.config) << at;
      EXPECT_TRUE(equal(archive.weights, expected.weights)) << at;
      ++harmless;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("[keras_files] m.keras: ")) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 20 * harmless);
}

TEST(DamagedWeightsTest, NoCutIsOverlooked) {
  const std::string bytes = read_file(golden_path("keras_files_mlp.weights.h5"));
  for (size_t size = 0; size + 8 < bytes.size(); size += 997) {
    expect_error_containing([&] { parse_weights(bytes_in(bytes.substr(0, size)), "w.h5"); },
                            ErrorCode::kDataLoss, "[keras_files] w.h5: ");
  }
}

void expect_refused(const std::string& name, ErrorCode code, const std::string& message) {
  const std::string path = golden_path("keras_files_" + name + ".weights.h5");
  expect_error_containing([&] { load_weights_file(path); }, code,
                          "[keras_files] " + path + ": layers/dense/" + message);
}

TEST(HostileWeightsTest, AreRefusedByName) {
  expect_refused("soft_link", ErrorCode::kDataLoss, "vars/0: got a soft link; expected the object");
  expect_refused("external_link", ErrorCode::kDataLoss, "vars/0: got an external link; expected");
  expect_refused("external_data", ErrorCode::kDataLoss,
                 "vars/0: got data in another file; expected it in this one");
  expect_refused("virtual", ErrorCode::kDataLoss,
                 "vars/0: got data in another file; expected it in this one");
  expect_refused("cycle", ErrorCode::kDataLoss,
                 "again: got a group that has a second place in the file; expected a tree");
  expect_refused("bomb", ErrorCode::kDataLoss,
                 "vars/0: got shape [1048576, 1048576] with 0 bytes in a file of ");
  expect_refused("gap", ErrorCode::kDataLoss,
                 "vars: got dataset 2 and no 1; expected 0 to 1 without gaps");
  expect_refused("strings", ErrorCode::kUnimplemented, "vars/0: got elements of 3 bytes of HDF5's");
  expect_refused("filter", ErrorCode::kUnimplemented, "vars/0: got filter 32000 'lzf'; expected");
}

// Valid HDF5, in forms that h5py writes only on request.
TEST(HostileWeightsTest, NewerFormsOfHdf5AreNamedWithTheWayOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"newer_chunks", "layers/dense/vars/0: got chunks of a newer kind"},
      {"dense_links", "layers/dense/vars: got a group whose links are outside of its header"},
      {"dense_attributes", "layers/dense/vars: got an object whose attributes are outside of its"},
      {"committed_type", "layers/dense/vars/0: got a committed type"},
      {"user_block", "got HDF5 behind a user block"},
  };
  for (const auto& [name, message] : cases) {
    const std::string path = golden_path(str_cat("keras_files_", name, ".weights.h5"));
    for (const std::string part :
         {message,
          "; expected what h5py writes by default; save the file again with Keras, or "
          "with h5py and without libver='latest'"})
      expect_error_containing([&] { load_weights_file(path); }, ErrorCode::kUnimplemented, part);
  }
}

TEST(DamagedLegacyModelTest, SaysWhatTheFileIsInstead) {
  const std::string archive = golden_path("keras_files_mlp.keras");
  expect_error([&] { load_legacy_model(archive); },
               "[keras_files] " + archive +
                   ": got a zip archive; expected HDF5. Is it a .keras file under another name?");
  const std::string weights = golden_path("keras_files_mlp.weights.h5");
  expect_error_containing([&] { load_legacy_model(weights); }, ErrorCode::kInvalidArgument,
                          "got HDF5 without the attribute 'model_config'; expected a whole model");
}

}  // namespace
}  // namespace strata::keras_files
