#include <csetjmp>
// clang-format off
#include <cstdio>  // jpeglib.h wants FILE and size_t
#include <jpeglib.h>

#include <jerror.h>
// clang-format on

#include "base/check.h"
#include "io/image_decode.h"

namespace heed {
namespace {

/// libjpeg reports an error by longjmp, which runs no destructors: the functions that call setjmp
/// own nothing.
struct JpegJob {
  jpeg_error_mgr errors;
  jpeg_decompress_struct decoder;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  int problem = 0;  ///< libjpeg's code, or kTooManyScans
};

/// Every scan of a progressive image visits all its blocks, however few bytes it has. Encoders
/// write about 10.
constexpr int kMostScans = 100;
constexpr int kTooManyScans = -1;

void on_error(j_common_ptr info) {
  JpegJob* job = static_cast<JpegJob*>(info->client_data);
  job->problem = info->err->msg_code;
  std::longjmp(job->jump, 1);
}

/// Level -1 is damaged data, which libjpeg would fill with grey: a truncated file is refused.
void on_message(j_common_ptr info, int level) {
  if (level < 0) {
    on_error(info);
  }
}

void count_scans(j_common_ptr info) {
  JpegJob* job = static_cast<JpegJob*>(info->client_data);
  if (job->decoder.input_scan_number > kMostScans) {
    job->problem = kTooManyScans;
    std::longjmp(job->jump, 1);
  }
}

bool start(JpegJob& job, const unsigned char* data, unsigned long bytes) {
  if (setjmp(job.jump) != 0) {
    return false;
  }
  jpeg_create_decompress(&job.decoder);  // keeps err and client_data
  job.decoder.progress = &job.progress;
  jpeg_mem_src(&job.decoder, data, bytes);
  jpeg_read_header(&job.decoder, TRUE);
  if (job.decoder.jpeg_color_space == JCS_GRAYSCALE) {
    job.decoder.out_color_space = JCS_GRAYSCALE;
  } else if (job.decoder.jpeg_color_space != JCS_CMYK && job.decoder.jpeg_color_space != JCS_YCCK) {
    job.decoder.out_color_space = JCS_RGB;
  }
  jpeg_calc_output_dimensions(&job.decoder);
  return true;
}

bool read_rows(JpegJob& job, uint8_t* first) {
  if (setjmp(job.jump) != 0) {
    return false;
  }
  jpeg_start_decompress(&job.decoder);
  const size_t stride = size_t{job.decoder.output_width} * job.decoder.output_components;
  while (job.decoder.output_scanline < job.decoder.output_height) {
    JSAMPROW row = first + job.decoder.output_scanline * stride;
    jpeg_read_scanlines(&job.decoder, &row, 1);
  }
  jpeg_finish_decompress(&job.decoder);
  return true;
}

[[noreturn]] void refuse(int problem, const std::string& name) {
  switch (problem) {
    case kTooManyScans:
      fail(ErrorKind::data, name, "is a JPEG of more than {} scans", kMostScans);
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
    case JWRN_JPEG_EOF:
      fail(ErrorKind::data, name, "is a truncated JPEG");
    case JERR_OUT_OF_MEMORY:
      fail(ErrorKind::runtime, name, "not enough memory for the JPEG decoder");
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
      fail(ErrorKind::data, name,
           "is a JPEG of a kind that is not supported; save it as a baseline or progressive JPEG");
    default:
      fail(ErrorKind::data, name, "is a corrupt JPEG");
  }
}

/// The decoder keeps the coefficients of all scans, twice the bytes of the image.
void check_coefficients(const JpegJob& job, const std::string& name, uint64_t max_pixels) {
  const uint64_t height = job.decoder.output_height;
  const uint64_t width = job.decoder.output_width;
  check_data(2 * height * width <= max_pixels, name,
             "has {} x {} pixels in several scans; at most {} million are supported in a "
             "progressive JPEG",
             width, height, max_pixels / 2'000'000);
}

}  // namespace

Tensor decode_jpeg(std::string_view bytes, const std::string& name, uint64_t max_pixels) {
  JpegJob job{};
  job.decoder.err = jpeg_std_error(&job.errors);
  job.decoder.client_data = &job;
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_message;
  job.progress.progress_monitor = count_scans;
  struct Destroyer {
    JpegJob& job;
    ~Destroyer() { jpeg_destroy_decompress(&job.decoder); }
  } destroyer{job};
  if (!start(job, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) {
    refuse(job.problem, name);
  }
  const int channels = job.decoder.out_color_components;
  check_data(channels == 1 || channels == 3, name,
             "is a JPEG with {} colour channels (CMYK); save it as RGB", channels);
  if (jpeg_has_multiple_scans(&job.decoder)) {
    check_coefficients(job, name, max_pixels);
  }
  Tensor pixels =
      empty_image(job.decoder.output_height, job.decoder.output_width, channels, name, max_pixels);
  if (!read_rows(job, pixels.data<uint8_t>())) {
    refuse(job.problem, name);
  }
  return pixels;
}

}  // namespace heed
