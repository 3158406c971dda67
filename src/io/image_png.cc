#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "heed/io.h"
#include "io/image_decode.h"

namespace heed {
namespace {

/// What libpng says of an image in many ways.
enum class PngProblem { corrupt, truncated, checksum, header, memory };

PngProblem problem_of(std::string_view text) {
  const auto says = [&](std::string_view part) { return text.find(part) != text.npos; };
  if (says("Not enough") || says("Truncated")) {
    return PngProblem::truncated;
  }
  if (says("CRC") || says("incorrect data check") || says("ADLER")) {
    return PngProblem::checksum;
  }
  if (says("IHDR")) {
    return PngProblem::header;
  }
  return says("memory") || says("Memory") ? PngProblem::memory : PngProblem::corrupt;
}

/// libpng reports an error by longjmp, which runs no destructors: all state lives here, and the
/// functions that call setjmp own nothing.
struct PngJob {
  std::string_view in;
  std::string out;
  PngProblem problem = PngProblem::corrupt;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<png_bytep> rows;
};

void on_error(png_structp png, png_const_charp text) {
  PngJob* job = static_cast<PngJob*>(png_get_error_ptr(png));
  job->problem = problem_of(text);
  std::longjmp(png_jmpbuf(png), 1);
}
void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep into, size_t count) {
  PngJob* job = static_cast<PngJob*>(png_get_io_ptr(png));
  if (count > job->in.size()) {
    png_error(png, "Truncated");
  }
  std::memcpy(into, job->in.data(), count);
  job->in.remove_prefix(count);
}

/// Reads what comes before the pixels. Nothing of their size is allocated yet.
bool read_header(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) {
    return false;
  }
  png_set_read_fn(job.png, &job, read_bytes);
  png_set_user_limits(job.png, 100'000'000, 100'000'000);
  png_read_info(job.png, job.info);
  return true;
}

/// Asks for 8 bits of grey or RGB and allocates rows.
bool start_rows(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) {
    return false;
  }
  png_set_expand(job.png);
  png_set_scale_16(job.png);
  png_set_strip_alpha(job.png);
  png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  return true;
}

bool read_rows(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) {
    return false;
  }
  png_read_image(job.png, job.rows.data());
  png_read_end(job.png, nullptr);
  return true;
}

void write_bytes(png_structp png, png_bytep data, size_t count) {
  static_cast<PngJob*>(png_get_io_ptr(png))->out.append(reinterpret_cast<char*>(data), count);
}

bool write_rows(PngJob& job, uint32_t height, uint32_t width, int color) {
  if (setjmp(png_jmpbuf(job.png)) != 0) {
    return false;
  }
  png_set_write_fn(job.png, &job, write_bytes, nullptr);
  png_set_IHDR(job.png, job.info, width, height, 8, color, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job.png, job.info);
  png_write_image(job.png, job.rows.data());
  png_write_end(job.png, job.info);
  return true;
}

[[noreturn]] void refuse(PngProblem problem, const std::string& name) {
  switch (problem) {
    case PngProblem::truncated:
      fail(ErrorKind::data, name, "is a truncated PNG");
    case PngProblem::checksum:
      fail(ErrorKind::data, name, "is a corrupt PNG: a checksum does not match its data");
    case PngProblem::header:
      fail(ErrorKind::data, name, "is a corrupt PNG: its header is not valid");
    case PngProblem::memory:
      fail(ErrorKind::runtime, name, "not enough memory for the PNG decoder");
    case PngProblem::corrupt:
      break;
  }
  fail(ErrorKind::data, name, "is a corrupt PNG");
}

/// The bytes of compressed pixels, as the lengths of the chunks say.
uint64_t pixel_bytes(std::string_view file) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length, name and checksum of a chunk
  uint64_t total = 0;
  for (uint64_t at = kSignature; at + kAround <= file.size();) {
    const auto* chunk = reinterpret_cast<png_const_bytep>(file.data()) + at;
    const uint64_t length = png_get_uint_32(chunk);
    total += file.substr(at + 4, 4) == "IDAT" ? length : 0;
    at += kAround + length;
  }
  return total;
}

/// libpng inflates all there is, whatever the size of the image. Data that cannot be compressed
/// become hardly longer; encoders that end a block often add a few bytes per row.
void check_pixel_bytes(const PngJob& job, std::string_view file, const std::string& name) {
  const uint64_t height = png_get_image_height(job.png, job.info);
  const uint64_t raw = height * (png_get_rowbytes(job.png, job.info) + 1);
  const uint64_t most = 2 * raw + 65536;
  const uint64_t bytes = pixel_bytes(file);
  check_data(bytes <= most, name,
             "is a corrupt PNG: it has {} bytes of compressed pixels, but its {} x {} pixels take "
             "at most {}",
             bytes, png_get_image_width(job.png, job.info), height, most);
}

void set_rows(PngJob& job, const Tensor& pixels) {
  const int64_t height = pixels.size(0);
  uint8_t* first = pixels.data<uint8_t>();
  for (int64_t row = 0; row < height; ++row) {
    job.rows.push_back(first + row * (pixels.numel() / height));
  }
}

}  // namespace

Tensor decode_png(std::string_view bytes, const std::string& name, uint64_t max_pixels) {
  PngJob job;
  job.in = bytes;
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  struct Destroyer {
    PngJob& job;
    ~Destroyer() { png_destroy_read_struct(&job.png, &job.info, nullptr); }
  } destroyer{job};
  check(job.png != nullptr, name, "not enough memory for the PNG decoder");
  job.info = png_create_info_struct(job.png);
  check(job.info != nullptr, name, "not enough memory for the PNG decoder");
  if (!read_header(job)) {
    refuse(job.problem, name);
  }
  check_image_size(png_get_image_height(job.png, job.info), png_get_image_width(job.png, job.info),
                   name, max_pixels);
  check_pixel_bytes(job, bytes, name);
  if (!start_rows(job)) {
    refuse(job.problem, name);
  }
  const int channels = png_get_channels(job.png, job.info);
  check_data(channels == 1 || channels == 3, name, "is a PNG with {} channels", channels);
  Tensor pixels = empty_image(png_get_image_height(job.png, job.info),
                              png_get_image_width(job.png, job.info), channels, name, max_pixels);
  set_rows(job, pixels);
  if (!read_rows(job)) {
    refuse(job.problem, name);
  }
  return pixels;
}

std::string encode_png(const Tensor& pixels) {
  const bool grey = pixels.rank() == 2;
  const int64_t channels = grey ? 1 : pixels.rank() == 3 ? pixels.size(2) : 0;
  check(
      (grey || channels == 3 || channels == 4) && pixels.dtype() == DType::u8 && pixels.numel() > 0,
      "encode_png", "takes u8 [H, W], [H, W, 3] or [H, W, 4], not {} {}", name_of(pixels.dtype()),
      pixels.shape());
  check(pixels.size(0) <= 1'000'000 && pixels.size(1) <= 1'000'000, "encode_png",
        "{} is larger than PNG decoders support", pixels.shape());
  const Tensor flat = pixels.contiguous();
  PngJob job;
  set_rows(job, flat);
  job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  struct Destroyer {
    PngJob& job;
    ~Destroyer() { png_destroy_write_struct(&job.png, &job.info); }
  } destroyer{job};
  check(job.png != nullptr, "encode_png", "not enough memory for the PNG encoder");
  job.info = png_create_info_struct(job.png);
  check(job.info != nullptr, "encode_png", "not enough memory for the PNG encoder");
  const int color = grey            ? PNG_COLOR_TYPE_GRAY
                    : channels == 3 ? PNG_COLOR_TYPE_RGB
                                    : PNG_COLOR_TYPE_RGB_ALPHA;
  check(write_rows(job, static_cast<uint32_t>(flat.size(0)), static_cast<uint32_t>(flat.size(1)),
                   color),
        "encode_png", "not enough memory for the PNG encoder");
  return std::move(job.out);
}

void save_png(const std::filesystem::path& path, const Tensor& pixels) {
  write_file_atomically(path, encode_png(pixels));
}

}  // namespace heed
