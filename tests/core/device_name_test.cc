#include "strata/core/device_name.h"

#include <gtest/gtest.h>

#include "strata/core/error.h"

namespace strata {
namespace {

TEST(DeviceNameTest, ReadsTheFullForm) {
  const auto name = DeviceName::parse("/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(name.job, "worker");
  EXPECT_EQ(name.replica, 0);
  EXPECT_EQ(name.task, 1);
  EXPECT_EQ(name.type, "CPU");
  EXPECT_EQ(name.index, 0);
}

TEST(DeviceNameTest, PrintsOneCanonicalFormForEveryWayToWriteADevice) {
  const std::pair<const char*, const char*> cases[] = {
      {"cpu:1", "/device:CPU:1"},
      {"CPU:1", "/device:CPU:1"},
      {"gpu:0", "/device:GPU:0"},
      {"/gpu:0", "/device:GPU:0"},
      {"/device:GPU:0", "/device:GPU:0"},
      {"device:gpu:0", "/device:GPU:0"},
      {"/device:cpu:*", "/device:CPU:*"},
      {"cpu", "/device:CPU:*"},
      {"/device:*:2", "/device:*:2"},
      {"/job:ps", "/job:ps"},
      {"task:3", "/task:3"},
      {"/task:3/job:worker", "/job:worker/task:3"},
      {"/job:*/task:*/device:CPU:0", "/device:CPU:0"},
      {"/job:worker/task:1/cpu:0", "/job:worker/task:1/device:CPU:0"},
      {"/device:TPU:7", "/device:TPU:7"},
      {"/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1/device:CPU:0"},
  };
  for (const auto& [text, canonical] : cases) {
    EXPECT_EQ(DeviceName::parse(text).to_string(), canonical) << text;
    EXPECT_EQ(DeviceName::parse(canonical), DeviceName::parse(text)) << text;
  }
}

TEST(DeviceNameTest, ShortNameIsTypeAndIndex) {
  EXPECT_EQ(DeviceName::parse("/job:worker/task:1/device:GPU:2").short_name(), "gpu:2");
  EXPECT_EQ(DeviceName::parse("CPU").short_name(), "cpu");
  EXPECT_EQ(DeviceName::parse("/job:ps").short_name(), "");
}

TEST(DeviceNameTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "it is empty"},
      {"cpu:one", "\"one\" is no number of a device"},
      {"cpu:-1", "\"-1\" is no number of a device"},
      {"cpu:", "\"\" is no number of a device"},
      {"cpu:99999999999", "is no number of a device"},
      {"cpu:1:2", "\"1:2\" is no number of a device"},
      {"0", "\"0\" is no type of device"},
      {"/task:x", "\"x\" is no number of a task"},
      {"/replica", "\"\" is no number of a replica"},
      {"/job:", "\"\" is no name of a job"},
      {"/job:a b", "\"a b\" is no name of a job"},
      {"/job:a/job:b", "it has two parts \"job\""},
      {"/cpu:0/gpu:0", "it names two devices"},
      {"job:a/cpu:0", "starts with \"/\""},
      {"/job:a//cpu:0", "a part is empty"},
      {"/", "a part is empty"},
  };
  for (const auto& [text, what] : cases) {
    try {
      DeviceName::parse(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      const std::string message = error.what();
      EXPECT_NE(message.find(what), std::string::npos) << message;
      EXPECT_EQ(message.rfind("[device_name] parse: got \"" + std::string(text) + "\"", 0), 0u)
          << message;
    }
  }
}

TEST(DeviceNameTest, MergesMissingPartsAndKeepsAnIndexWithItsType) {
  const auto defaults = DeviceName::parse("/job:worker/replica:0/task:1/device:CPU:3");
  EXPECT_EQ(DeviceName::parse("cpu").merged_over(defaults).to_string(),
            "/job:worker/replica:0/task:1/device:CPU:3");
  EXPECT_EQ(DeviceName::parse("gpu").merged_over(defaults).to_string(),
            "/job:worker/replica:0/task:1/device:GPU:*");
  EXPECT_EQ(DeviceName::parse("/task:0").merged_over(defaults).to_string(),
            "/job:worker/replica:0/task:0/device:CPU:3");
  EXPECT_EQ(DeviceName().merged_over(defaults), defaults);
}

TEST(DeviceNameTest, MatchesOnThePartsThatAreSet) {
  const auto full = DeviceName::parse("/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_TRUE(DeviceName::parse("cpu").matches(full));
  EXPECT_TRUE(DeviceName::parse("/task:1").matches(full));
  EXPECT_TRUE(DeviceName().matches(full));
  EXPECT_FALSE(DeviceName::parse("gpu").matches(full));
  EXPECT_FALSE(full.matches(DeviceName::parse("cpu:0")));
}

}  // namespace
}  // namespace strata
