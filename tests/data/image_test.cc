#include <gtest/gtest.h>

#include <algorithm>

#include "data/support.h"
#include "heed/io.h"
#include "heed/lessons.h"
#include "support/check.h"

namespace heed {
namespace {

using test::error_of;
using test::put;
using test::values;

/// Grey images whose pixels are all `value`.
void put_image(const std::filesystem::path& path, int value, int64_t side = 4) {
  std::filesystem::create_directories(path.parent_path());
  save_png(path, Tensor::full({side, side}, value, DType::u8));
}

std::string idx(std::initializer_list<int> dims, const std::string& data) {
  std::string text = {0, 0, 8, static_cast<char>(dims.size())};
  for (const int dim : dims) {
    text += {0, 0, 0, static_cast<char>(dim)};
  }
  return text + data;
}

TEST(Images, FolderOfClasses) {
  test::TemporaryFolder folder;
  put_image(folder / "set/cat/1.png", 0);
  put_image(folder / "set/cat/2.png", 255);
  put_image(folder / "set/dog/a.PNG", 255, 8);
  put(folder / "set/dog/notes.txt", "no image");
  std::filesystem::create_directories(folder / "set/empty");
  const ImageData data = load_image_classes((folder / "set").string());
  EXPECT_EQ(data.labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.label, (std::vector<int32_t>{0, 0, 1}));
  LoaderOptions options;
  options.shuffle = false;
  const Batch batch = make_image_loader(data, {}, options)->next();
  ASSERT_EQ(batch.pixel_values.shape(), Shape({3, 3, 4, 4}));  // the size of the first
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{0, 0, 1}));
  test::expect_close(batch.pixel_values.alias({3}, {48}, 0), {-1, 1, 1},
                     test::elementwise(DType::f32));
  EXPECT_NE(error_of([&] { load_image_classes((folder / "set/cat").string()); }).find("no images"),
            std::string::npos);
  put(folder / "set/dog/broken.png", "\x89PNG");
  const ImageData broken = load_image_classes((folder / "set").string());
  EXPECT_NE(error_of([&] { make_image_loader(broken, {}, options)->next(); }).find("broken.png"),
            std::string::npos);
}

TEST(Images, IdxFilesWithTheirLabelsBesideThem) {
  test::TemporaryFolder folder;
  put(folder / "train-images-idx3-ubyte", idx({2, 1, 2}, std::string("\0\xff\xff\0", 4)));
  put(folder / "train-labels-idx1-ubyte", idx({2}, std::string("\3\0", 2)));
  for (const std::string& name : {std::string(), std::string("/train-images-idx3-ubyte")}) {
    const ImageData data = load_image_classes(folder.path().string() + name);
    EXPECT_EQ(data.label, (std::vector<int32_t>{3, 0}));
    EXPECT_EQ(data.labels.size(), 4u);
    LoaderOptions options;
    options.shuffle = false;
    const Batch batch = make_image_loader(data, {}, options)->next();
    test::expect_close(batch.pixel_values, {-1, 1, 1, -1}, test::elementwise(DType::f32));
    ImageOptions three;
    three.channels = 3;
    three.size = 2;
    EXPECT_EQ(make_image_loader(data, three, options)->next().pixel_values.shape(),
              Shape({2, 3, 2, 2}));
  }
  put(folder / "train-labels-idx1-ubyte", idx({1}, "\3"));
  EXPECT_NE(error_of([&] { load_image_classes(folder.path().string()); }).find("labels-idx1"),
            std::string::npos);
}

TEST(Images, CaptionsInEveryForm) {
  test::TemporaryFolder folder;
  put_image(folder / "a.png", 0);
  put_image(folder / "b.png", 0);
  const auto both = [&](const std::string& name, std::string_view text) {
    const ImageData data = load_captioned_images(put(folder / name, text));
    EXPECT_EQ(data.captions, (std::vector<std::string>{"one", "둘"})) << name;
    EXPECT_EQ(data.files, (std::vector<std::filesystem::path>{folder / "a.png", folder / "b.png"}));
  };
  both("1.tsv", "a.png\tone\nb.png\t둘\n");
  both("2.csv", "caption,image\none,a.png\n둘,b.png\n");
  both("3.jsonl",
       "{\"image\":\"a.png\",\"caption\":\"one\"}\n{\"image\":\"b.png\",\"caption\":\"둘\"}");
  both("4.json", "{\"a.png\":\"one\",\"b.png\":[\"둘\"]}");
  both("5.json",
       "[{\"image\":\"a.png\",\"caption\":\"one\"},{\"image\":\"b.png\",\"caption\":\"둘\"}]");
  both("6.json",
       R"({"images":[{"id":7,"file_name":"b.png"},{"id":3,"file_name":"a.png"}],
          "annotations":[{"image_id":3,"caption":"one"},{"image_id":7,"caption":"둘"}]})");
  EXPECT_NE(error_of([&] {
              load_captioned_images(put(folder / "7.tsv", "a.png\tx\nc.png\ty\n"));
            }).find("7.tsv:2: there is no image"),
            std::string::npos);
  EXPECT_NE(error_of([&] { load_captioned_images(folder.path().string()); }), "");
}

TEST(Images, CaptionedImagesComeBackAsBatches) {
  test::TemporaryFolder folder;
  write_synthetic_dataset("shapes", {}, 30, folder / "shapes");
  const ImageData data = load_captioned_images((folder / "shapes").string());
  ASSERT_EQ(data.size(), 30);
  EXPECT_EQ(data.captions[4], shapes_example({}, 4).caption);
  const Tokenizer tokenizer = test::word_tokenizer({"a", "red", "circle"});
  LoaderOptions options;
  options.batch = 8;
  const TokenShard captions = tokenize_all(data.captions, tokenizer);
  const auto one = make_caption_loader(data, {}, captions, {1, 2, 2}, options);
  options.ranks = 2;
  options.rank = 1;
  const auto second = make_caption_loader(data, {}, captions, {1, 2, 2}, options);
  const Batch whole = one->batch(5);
  const Batch half = second->batch(5);
  EXPECT_EQ(whole.pixel_values.shape(), Shape({8, 3, 32, 32}));
  const Batch expected = batch_rows(whole, 4, 8);
  EXPECT_EQ(half.labels.to_doubles(), expected.labels.to_doubles());
  test::expect_same_bits(half.pixel_values, expected.pixel_values.contiguous());
  EXPECT_EQ(half.targets, expected.targets);
  EXPECT_EQ(half.global_targets, whole.targets);
}

TEST(Features, RegionsWithCaptions) {
  test::TemporaryFolder folder;
  const Tensor features = test::random_normal({3, 5, 4});
  save_safetensors(folder / "f.safetensors", {{"features", features}});
  EXPECT_NE(error_of([&] { load_features((folder / "f.safetensors").string()); }), "");
  put(folder / "f.txt", "a\nred\ncircle\n");
  const FeatureData data = load_features((folder / "f.safetensors").string());
  LoaderOptions options;
  options.shuffle = false;
  const auto loader = make_caption_loader(
      data, tokenize_all(data.captions, test::word_tokenizer({"a", "red", "circle"})), {1, 2, 2},
      options);
  const Batch batch = loader->next();
  test::expect_same_bits(batch.features, features);
  EXPECT_EQ(values(batch.labels), (std::vector<int64_t>{3, 2, 4, 2, 5, 2}));
  put(folder / "f.txt", "a\n");
  EXPECT_NE(error_of([&] { load_features((folder / "f.safetensors").string()); }).find("1 lines"),
            std::string::npos);
}

TEST(Numbers, PlusTwoIsReadAndShifted) {
  test::TemporaryFolder folder;
  for (const char* name : {"n.jsonl", "n.tsv"}) {
    write_synthetic_dataset("plus-two", {}, 12, folder / name);
    const NumberData data = load_numbers((folder / name).string());
    ASSERT_EQ(data.input.shape(), Shape({12, 5, 1}));
    LoaderOptions options;
    options.shuffle = false;
    options.batch = 5;
    const auto loader = make_number_loader(data, options);
    EXPECT_EQ(loader->steps_per_epoch(), 3);
    const Batch batch = loader->batch(1);
    const NumberExample example = plus_two_example({}, 5);
    EXPECT_EQ(batch.features.alias({5}, {1}, 0).to_doubles(), example.input);
    EXPECT_EQ(batch.labels.alias({5}, {1}, 0).to_doubles(), example.target);
    EXPECT_EQ(batch.decoder_features.alias({5}, {1}, 0).to_doubles()[0], 0);
    EXPECT_EQ(batch.decoder_features.alias({5}, {1}, 0).to_doubles()[4], example.target[3]);
    EXPECT_EQ(loader->batch(2).rows, 2);
    EXPECT_EQ(batch.targets, 25);
  }
  EXPECT_NE(error_of([&] {
              load_numbers(put(folder / "b.tsv", "1 2\t3 4\n1 x\t3 4\n"));
            }).find("b.tsv:2: 'x' is no number"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              load_numbers(put(folder / "c.tsv", "1 2\t3 4\n1\t3 4\n"));
            }).find("c.tsv:2: has 1 numbers where the rows before have 2"),
            std::string::npos);
}

TEST(RealData, MnistHasSixtyThousandDigits) {
  HEED_NEEDS_SHARED("mnist");
  const std::string place = test::shared_data("mnist").string();
  const ImageData train = load_image_classes(place);
  EXPECT_EQ(train.pixels.shape(), Shape({60000, 1, 28, 28}));
  EXPECT_EQ(train.labels.size(), 10u);
  EXPECT_EQ(train.label[0], 5);  // the first digits of the set are known: 5, 0, 4
  EXPECT_EQ(train.label[2], 4);
  EXPECT_EQ(load_image_classes(place, "t10k").size(), 10000);
}

}  // namespace
}  // namespace heed
