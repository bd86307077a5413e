/** Uploads images that a person attaches to a message, within the API's limits. */
import { uploadImage } from "../api/chat_api";
import { ApiError } from "../api/failure";
import { errorText } from "../ui/error_text";
import { count, mebibytes } from "../ui/format";
import { texts } from "../ui/messages";

export const MAX_IMAGES = 16;
/** Bytes of all images of a message together. */
export const MAX_IMAGE_BYTES = 8_388_608;
const TYPES: readonly string[] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

export interface AttachedImage {
  readonly blob: string;
  /** Signed address of the stored image. */
  readonly url: string;
  readonly name: string;
  readonly size: number;
}

interface Uploaded {
  readonly images: readonly AttachedImage[];
  /** Messages that say why images were left out. */
  readonly problems: readonly string[];
}

/** Whether a file is attached as an image; SVG files are text. */
export function isImage(file: File): boolean {
  return file.type.startsWith("image/") && file.type !== "image/svg+xml";
}

/** Uploads `files`, which come beside `present`; those that do not fit or that the server refuses are left out. */
export async function uploadImages(present: readonly AttachedImage[], files: readonly File[]): Promise<Uploaded> {
  const images: AttachedImage[] = [];
  const problems: string[] = [];
  for (const file of files) {
    const size = [...present, ...images].reduce((sum, image) => sum + image.size, file.size);
    if (!TYPES.includes(file.type)) problems.push(texts.imageOfOtherType(file.name));
    else if (present.length + images.length >= MAX_IMAGES) problems.push(texts.imagesTooMany(count(MAX_IMAGES)));
    else if (size > MAX_IMAGE_BYTES) problems.push(texts.imagesTooLarge(mebibytes(MAX_IMAGE_BYTES)));
    else {
      try {
        images.push({ ...(await uploadImage(file)), name: file.name || texts.unnamedImage, size: file.size });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        problems.push(`${file.name}: ${errorText(error.failure)}`);
      }
    }
  }
  return { images, problems };
}
