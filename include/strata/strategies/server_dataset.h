#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/one_of.h"

namespace strata {

struct ServerFormatWords {
  enum Word { kIdx, kCsv, kRecords, kImageFolder };
  static constexpr const char* kOption = "format";
  static constexpr const char* kWords[] = {"idx", "csv", "records", "image_folder"};
};
/// What a server's files are.
using ServerFormat = OneOf<ServerFormatWords>;

struct RecordFieldWords {
  enum Word { kFloat, kInt64, kImage };
  static constexpr const char* kOption = "type";
  static constexpr const char* kWords[] = {"float", "int64", "image"};
};
using RecordFieldType = OneOf<RecordFieldWords>;

/// A feature of tf.train.Examples that becomes a field.
struct RecordField {
  std::string name;
  RecordFieldType type = "float";
  /// Of the values of an example. Unused for "image": bytes of a JPEG or PNG.
  std::vector<int64_t> shape = {};
};

/// A dataset that servers of a standalone client read themselves: what
/// ClientSession::server_dataset describes to them. Batches are of `batch_size`, for all replicas
/// together; rows at the end that make none are left out.
struct ServerDatasetOptions {
  // What is read.
  /// "idx": two files as MNIST's, images and labels: x float32 `[rows, columns]` in 0..1, y int64.
  /// "csv": tables of numbers: x float32 `[columns - 1]`, y int64, the label (data::csv_matrix).
  /// "records": TFRecord files of tf.train.Examples: the fields of `fields`, in order.
  /// "image_folder": one folder with a sub-folder of images a class: x an image, y int64.
  ServerFormat format = "idx";
  /// Of the folder that the server was started with (strata server --data).
  std::vector<std::string> files = {};
  int64_t batch_size = 32;
  /// The size of the buffer that `shuffle` draws from; 0: the files' order. Each epoch has its own.
  int64_t shuffle = 0;
  uint64_t seed = 0;
  /// Batches of an epoch, of those that there are; 0: all. Without it records and tables are read once
  /// to count them.
  int64_t batches = 0;

  // "csv".
  bool header = true;
  int64_t label_column = -1;  ///< -1: the last
  /// Labels that are texts: the label is the place here. Empty: numbers.
  std::vector<std::string> classes = {};

  // "records".
  std::vector<RecordField> fields = {};

  // Images of "records" and "image_folder": float32 `[image_height, image_width, 3]` in 0..1, bilinear.
  int64_t image_height = 224;
  int64_t image_width = 224;
};

}  // namespace strata
