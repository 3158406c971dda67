// The edges of the readers: the last value that is taken and the first that is not, and every form
// a value may have.
#include <gtest/gtest.h>
#include <zlib.h>
// clang-format off
#include <cstdio>  // jpeglib.h wants FILE and size_t
#include <jpeglib.h>
// clang-format on

#include <cstdlib>
#include <fstream>

#include "heed/io.h"
#include "io/gguf.h"
#include "io/gzip.h"
#include "io/json.h"
#include "io/json_problem.h"
#include "io/json_split.h"
#include "io/toml.h"
#include "support/data.h"
#include "support/error.h"
#include "support/gzip.h"

namespace heed::test {
namespace {

namespace fs = std::filesystem;

class ReaderEdges : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

template <class T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A WAV of one frame.
std::string wav_of(uint16_t channels, uint32_t rate) {
  const std::string data(2 * size_t{channels}, '\0');
  return "RIFF" + raw_bytes(static_cast<uint32_t>(36 + data.size())) + "WAVEfmt " +
         raw_bytes(uint32_t{16}) + raw_bytes(uint16_t{1}) + raw_bytes(channels) + raw_bytes(rate) +
         raw_bytes(static_cast<uint32_t>(rate * channels * 2)) +
         raw_bytes(static_cast<uint16_t>(channels * 2)) + raw_bytes(uint16_t{16}) + "data" +
         raw_bytes(static_cast<uint32_t>(data.size())) + data;
}

TEST_F(ReaderEdges, AudioRatesAndChannels) {
  EXPECT_EQ(decode_audio(wav_of(64, 1000), "a.wav", 1000).numel(), 1);
  EXPECT_EQ(decode_audio(wav_of(1, 400000), "a.wav", 400000).numel(), 1);
  EXPECT_ERROR(decode_audio(wav_of(65, 16000), "a.wav"), "a.wav: has 65 channels");
  EXPECT_ERROR(decode_audio(wav_of(1, 999), "a.wav"), "at 999 Hz");
  EXPECT_ERROR(decode_audio(wav_of(1, 400001), "a.wav"), "at 400001 Hz");
  EXPECT_ERROR(decode_audio("", "a.wav", 999), "decode_audio: a sample rate of 999");
  EXPECT_ERROR(decode_audio("", "a.wav", 400001), "decode_audio: a sample rate of 400001");
  // Chunks that claim to be larger than the file make libsndfile seek beyond its end.
  std::string sound = wav_of(1, 16000);
  sound.replace(36, 4, "LIST");
  sound.replace(40, 4, raw_bytes(uint32_t{0x7fffffff}));
  EXPECT_ERROR(decode_audio(sound, "a.wav"), "a.wav: ");
}

TEST_F(ReaderEdges, GzipMembersAndExpansion) {
  EXPECT_EQ(gunzip(gzipped("") + gzipped("y"), "f", 10), "y");  // the first member is empty
  const std::string idx("\x00\x00\x08\x01\x00\x00\x00\x02xy", 10);
  EXPECT_EQ(load_idx(write("a.gz", gzipped("") + gzipped(idx))).numel(), 2);
  // 200,000 empty members: each took a chunk of 1 MiB of zeros.
  const std::string none = gzipped("");
  std::string many = gzipped("x");
  for (int i = 0; i < 200'000; ++i) {
    many += none;
  }
  EXPECT_EQ(gunzip(many, "f", size_t{1} << 30), "x");
  // Zeros expand a thousand times: taken up to 64 MiB, refused beyond.
  const std::string zeros(size_t{65} << 20, '\0');
  const std::string packed = gzipped(zeros);
  EXPECT_ERROR(gunzip(packed, "f", zeros.size()), "refused as a decompression bomb");
  // What was stored without compression is no bomb at any size.
  const fs::path stored = folder_ / "stored.gz";
  gzFile file = gzopen(stored.c_str(), "wb0");
  gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  gzclose(file);
  EXPECT_EQ(gunzip(read_file(stored), "f", zeros.size()).size(), zeros.size());
}

TEST_F(ReaderEdges, IdxTypesAndHeads) {
  const float value = 1.5F;
  std::string big = raw_bytes(value);
  std::reverse(big.begin(), big.end());
  EXPECT_EQ(load_idx(write("a", std::string("\0\0\x0d\x01\0\0\0\x01", 8) + big)).item(), 1.5);
  EXPECT_ERROR(load_idx(write("a", std::string("\0x\x08\x01", 4))), "is not an IDX file");
}

TEST_F(ReaderEdges, NpyHeaders) {
  const auto npy = [](char version, uint32_t length, const std::string& header) {
    const std::string size = raw_bytes(length).substr(0, version == 1 ? 2 : 4);
    return "\x93NUMPY" + std::string{version, '\0'} + size + header;
  };
  const auto shape = [&](const std::string& text) {
    const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + text;
    return write("a", npy(1, static_cast<uint32_t>(header.size()), header));
  };
  EXPECT_ERROR(load_npy(write("a", npy(4, 0, "xxxxxxxx"))), "has .npy version 4");
  EXPECT_ERROR(load_npy(write("a", npy(2, 70000, std::string(70000, ' ')))),
               "its header of 70000 bytes is longer");
  EXPECT_ERROR(load_npy(shape("(1")), "its shape is not a tuple");
  EXPECT_ERROR(load_npy(shape("(1a,)}")), "is not up to 8 whole numbers");
  EXPECT_ERROR(load_npy(write("a", npy(2, 0xFFFFFFFF, "xxxxxxxx"))), "4294967295 bytes is longer");
  EXPECT_ERROR(load_npy(shape("(-1,)}")), "is not up to 8 whole numbers");
  EXPECT_ERROR(load_npy(shape("(1125899906842624,)}")), "dimension that is too large");
  EXPECT_ERROR(load_npy(shape("(1125899906842623,1125899906842623)}")), "overflows");
  EXPECT_ERROR(load_npy(shape("(0,1125899906842623,1125899906842623)}")), "overflows");
  EXPECT_EQ(load_npy(shape("(0,3)}")).shape(), Shape({0, 3}));
}

TEST_F(ReaderEdges, ImageSizes) {
  EXPECT_ERROR(decode_image("P5 0 5 255\n", "p"), "p: is an image of 0 x 5 pixels");
  const std::string row(70000, 'x');
  EXPECT_ERROR(decode_image("P5 70000 1 255\n" + row, "p"), "has 70000 x 1 pixels");
  EXPECT_ERROR(decode_image("P5 1 70000 255\n" + row, "p"), "has 1 x 70000 pixels");
  EXPECT_ERROR(decode_image("P5 700 100 255\n" + row, "p", 0, 1000), "has 700 x 100 pixels");
  const Tensor image = Tensor::zeros({1, 4, 6}, DType::u8);
  EXPECT_ERROR(center_crop(image, -1, 2), "-1 x 2 cannot be cropped");
  EXPECT_ERROR(center_crop(image, 2, -1), "2 x -1 cannot be cropped");
  EXPECT_ERROR(center_crop(image, 2, 7), "2 x 7 cannot be cropped");
  EXPECT_ERROR(encode_png(Tensor::zeros({6}, DType::u8)), "not u8 [6]");
  EXPECT_ERROR(encode_png(Tensor::zeros({1, 1000001}, DType::u8)), "larger than PNG decoders");
}

/// A JPEG of one pixel with four colour channels.
std::string cmyk_jpeg(J_COLOR_SPACE stored) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &data, &size);
  encoder.image_width = encoder.image_height = 1;
  encoder.input_components = 4;
  encoder.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_colorspace(&encoder, stored);
  jpeg_start_compress(&encoder, TRUE);
  JSAMPLE pixel[4] = {1, 2, 3, 4};
  JSAMPROW row = pixel;
  jpeg_write_scanlines(&encoder, &row, 1);
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  const std::string bytes(reinterpret_cast<char*>(data), size);
  std::free(data);
  return bytes;
}

TEST_F(ReaderEdges, JpegsOfFourColoursAreRefused) {
  EXPECT_ERROR(decode_image(cmyk_jpeg(JCS_CMYK), "p"), "a JPEG with 4 colour channels (CMYK)");
  EXPECT_ERROR(decode_image(cmyk_jpeg(JCS_YCCK), "p"), "a JPEG with 4 colour channels (CMYK)");
}

TEST_F(ReaderEdges, JsonValuesAndTheirPaths) {
  const Json json = Json::parse("{\"a\":{\"b\":1},\r\n\t\"c\":\"x\",\"d\":[],\"e\":5}", "f");
  EXPECT_ERROR(json.integer("c", 0, 9), "f: c is \"x\"; expected a whole number");
  EXPECT_ERROR(json.integer("e", 0, 4), "f: e is 5; expected a whole number from 0 to 4");
  EXPECT_ERROR(json.at("e").size(), "f: e is 5; expected an array or object");
  EXPECT_ERROR(json.at("a")[0], "f: a is an object; expected an array");
  EXPECT_EQ(json.integer_or("e", 1, 0, 9), 5);
  EXPECT_EQ(json.number_or("e", 1, 0, 9), 5.0);
  EXPECT_EQ(json.string_or("c", "y"), "x");
  EXPECT_NO_THROW(json.only({"a", "c", "d", "e"}));
  EXPECT_ERROR(json.only({"a", "c", "d"}), "f: e is not a known key; known keys: a, c, d");
  EXPECT_ERROR(Json::parse("]", "f"), "f: is not valid JSON");
  EXPECT_EQ(json_problem("no brackets"), "no brackets");
  EXPECT_EQ(json_problem("[json.exception] what"), "what");
  JsonBuilder builder;
  builder.set("list", std::vector<Json>{json.at("a"), json.at("e")}).set_null("nothing");
  EXPECT_EQ(builder.dump(-1), R"({"list":[{"b":1},5],"nothing":null})");
  EXPECT_TRUE(builder.has("list"));
  EXPECT_FALSE(builder.has("nothing"));
  EXPECT_FALSE(builder.has("absent"));
}

TEST_F(ReaderEdges, SplittingATokenizerGivesUpOnOddValues) {
  const std::string head = R"({"model": {"vocab": {"a": 0}, "merges": )";
  for (const std::string value : {"[true]", "[-1]", "[0.5]", "[1]", R"([["a", 1]])"}) {
    EXPECT_FALSE(split_tokenizer_json(head + value + "}}", "t")) << value;
  }
  for (const std::string value : {"true", "null", R"("b")", "[1]"}) {
    EXPECT_FALSE(
        split_tokenizer_json(R"({"model":{"merges":["a b"],"vocab":{"a":)" + value + "}}}", "t"))
        << value;
  }
  // Two lists of merges; an object of merges; both under another name.
  EXPECT_FALSE(split_tokenizer_json(R"({"model":{"vocab":{"a":0},"merges":{"a":1}}})", "t"));
  EXPECT_FALSE(split_tokenizer_json(R"({"other":{"vocab":{"a":0},"merges":["a b"]}})", "t"));
  const auto both = split_tokenizer_json(
      R"({"a":null,"b":[true,-1,0.5],"model":{"vocab":{"a":0},"merges":["a b"]}})", "t");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->rest.dump(), R"({"a":null,"b":[true,-1,0.5],"model":{"merges":[],"vocab":{}}})");
}

TEST_F(ReaderEdges, TomlKeysAndNumbers) {
  TomlWriter writer;
  writer.section("a b").field("Az09_-", true).field("`", false).field("[", 1.0).field("{", 2.0);
  writer.field("/", std::vector<std::string>{"x", "y"}).field("none", std::vector<std::string>{});
  writer.field("nan", std::numeric_limits<double>::quiet_NaN());
  writer.field("low", -std::numeric_limits<double>::infinity()).field("", "empty");
  EXPECT_EQ(writer.text(),
            "[\"a b\"]\nAz09_- = true\n\"`\" = false\n\"[\" = 1.0\n\"{\" = 2.0\n"
            "\"/\" = [\"x\", \"y\"]\nnone = []\nnan = nan\nlow = -inf\n\"\" = \"empty\"\n");
  EXPECT_EQ(parse_toml(writer.text(), "f").at("a b").string(""), "empty");
}

TEST_F(ReaderEdges, SafetensorsHeaders) {
  const auto file = [&](const std::string& header) {
    return write("a.safetensors", raw_bytes(uint64_t{header.size()}) + header);
  };
  const std::pair<std::string, std::string> cases[] = {
      {R"({"a":{"shape":"x"}})", "tensor 'a': shape: a string is not expected here"},
      {R"({"a":{"dtype":[1]}})", "tensor 'a': dtype: an array is not expected here"},
      {R"({"a":{"dtype":"U8","shape":[576460752303423488,576460752303423488,2],)"
       R"("data_offsets":[0,0]}})",
       "overflows"},
  };
  for (const auto& [header, why] : cases) {
    EXPECT_ERROR(load_safetensors(file(header)), why) << header;
  }
  const TensorMap one{{"a", Tensor::zeros({1})}};
  const fs::path path = folder_ / "b.safetensors";
  EXPECT_ERROR(save_safetensors(path, one, {{"\xff", "x"}}), "is not UTF-8");
  EXPECT_ERROR(save_safetensors(path, one, {{"k", "\xff"}}), "metadata 'k' is not UTF-8");
  save_safetensors(path, one, {{"k", "1"}, {"l", "2"}});
  EXPECT_EQ(safetensors_metadata(path), (Metadata{{"k", "1"}, {"l", "2"}}));
  save_safetensors(path, one, {});
  EXPECT_TRUE(safetensors_metadata(path).empty());
}

TEST_F(ReaderEdges, ShardsOfAnIndex) {
  const auto index = [&](const std::string& name) {
    write("model.safetensors.index.json", R"({"weight_map":{"a":")" + name + "\"}}");
  };
  index("a\\u0000b");
  EXPECT_ERROR(load_weights(folder_.path()), "is not a plain name in this folder");
  // In Hugging Face's cache a snapshot may link to blobs, and to nothing else outside.
  const fs::path snapshot = folder_ / "cache" / "snapshots" / "1";
  fs::create_directories(snapshot);
  fs::create_directories(folder_ / "cache" / "blobs");
  for (const char* place : {"cache/blobs/x", "cache/x"}) {
    save_safetensors(folder_ / place, {{"a", Tensor::zeros({1})}}, {});
    fs::remove(snapshot / "s.safetensors");
    fs::create_symlink(folder_ / place, snapshot / "s.safetensors");
    std::ofstream(snapshot / "model.safetensors.index.json")
        << R"({"weight_map":{"a":"s.safetensors"}})";
    if (std::string(place) == "cache/blobs/x") {
      EXPECT_EQ(load_weights(snapshot).size(), 1u);
    } else {
      EXPECT_ERROR(load_weights(snapshot), "is a link out of this folder");
    }
  }
}

/// A GGUF with one value of each type of number, a string and arrays of them.
std::string gguf_of_every_type() {
  const auto text = [](const std::string& value) {
    return raw_bytes(uint64_t{value.size()}) + value;
  };
  std::string values;
  uint64_t count = 0;
  const auto add = [&](const std::string& key, GgufType type, const std::string& data) {
    values += text(key) + raw_bytes(static_cast<uint32_t>(type)) + data;
    values += text(key + "s") + raw_bytes(static_cast<uint32_t>(GgufType::array)) +
              raw_bytes(static_cast<uint32_t>(type)) + raw_bytes(uint64_t{1}) + data;
    count += 2;
  };
  add("u8", GgufType::u8, raw_bytes(uint8_t{7}));
  add("i8", GgufType::i8, raw_bytes(int8_t{7}));
  add("u16", GgufType::u16, raw_bytes(uint16_t{7}));
  add("i16", GgufType::i16, raw_bytes(int16_t{7}));
  add("u32", GgufType::u32, raw_bytes(uint32_t{7}));
  add("i32", GgufType::i32, raw_bytes(int32_t{7}));
  add("u64", GgufType::u64, raw_bytes(uint64_t{7}));
  add("i64", GgufType::i64, raw_bytes(int64_t{7}));
  add("f32", GgufType::f32, raw_bytes(7.0F));
  add("f64", GgufType::f64, raw_bytes(7.0));
  add("bool", GgufType::boolean, raw_bytes(uint8_t{1}));
  add("text", GgufType::string, text("t"));
  return "GGUF" + raw_bytes(uint32_t{3}) + raw_bytes(uint64_t{0}) + raw_bytes(count) + values;
}

TEST_F(ReaderEdges, GgufValuesOfEveryType) {
  const GgufFile file(write("m.gguf", gguf_of_every_type()));
  for (const std::string key : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"}) {
    EXPECT_EQ(file.integer(key, 0, 9), 7) << key;
    EXPECT_EQ(file.integer_or(key, 1, 0, 9), 7) << key;
    EXPECT_EQ(file.integers(key + "s", 0, 9), (std::vector<int64_t>{7})) << key;
    EXPECT_EQ(file.number(key, 0, 9), 7.0) << key;
    EXPECT_ERROR(file.integer(key, 8, 9), key + " is 7; a whole number from 8 to 9 is wanted");
    EXPECT_ERROR(file.integer(key, 0, 6), key + " is 7; a whole number from 0 to 6 is wanted");
  }
  EXPECT_EQ(file.number_or("f64", 1, 0, 9), 7.0);
  EXPECT_EQ(file.numbers("f64s"), (std::vector<double>{7.0}));
  EXPECT_TRUE(file.boolean_or("bool", false));
  EXPECT_EQ(file.string_or("text", "x"), "t");
  EXPECT_EQ(file.string_or("none", "x"), "x");
  EXPECT_ERROR(file.integer("f64", 0, 9), "a whole number is wanted");
  EXPECT_ERROR(file.integer("bool", 0, 9), "bool is a bool; a whole number is wanted");
  EXPECT_ERROR(file.integer("text", 0, 9), "text is a string; a whole number is wanted");
  EXPECT_ERROR(file.number("bool", 0, 9), "bool is a bool; a number is wanted");
  EXPECT_ERROR(file.number("text", 0, 9), "text is a string; a number is wanted");
  EXPECT_ERROR(file.number("f64", 8, 9), "f64 is 7; a number from 8 to 9 is wanted");
  EXPECT_ERROR(file.integers("texts", 0, 9), "texts is a string; a whole number is wanted");
  EXPECT_ERROR(file.numbers("texts"), "texts is a string; a number is wanted");
  EXPECT_ERROR(file.strings("u8s"), "an array of strings is wanted");
}

TEST_F(ReaderEdges, GgufShardNamesAndNumbers) {
  const auto shard = [&](const std::string& name, uint32_t number, uint32_t count) {
    GgufWriter writer;
    writer.u32("split.no", number);
    writer.u32("split.count", count);
    writer.write(folder_ / name);
    return folder_ / name;
  };
  // Not one of several: too short, another ending, no hyphen, no digits, no "-of-".
  for (const char* name :
       {"m.gguf", "model-00001-of-00002.bin", "a_00001-of-00002.gguf", "a-0000x-of-00002.gguf",
        "a-0000!-of-00002.gguf", "a-00001_of_00002.gguf", "a-00001-of-0000:.gguf"}) {
    EXPECT_NO_THROW(GgufFile(shard(name, 0, 1))) << name;
    EXPECT_ERROR(GgufFile(shard(name, 0, 2)), "its name must end in -00001-of-00002.gguf");
  }
  EXPECT_NO_THROW(GgufFile(shard("a-00001-of-00001.gguf", 0, 1)));
  EXPECT_ERROR(GgufFile(shard("a-00001-of-00003.gguf", 0, 2)), "the file's name says otherwise");
  shard("b-00002-of-00002.gguf", 1, 3);
  EXPECT_ERROR(GgufFile(shard("b-00001-of-00002.gguf", 0, 2)), "is not file 2 of 2");
}

}  // namespace
}  // namespace heed::test
