/** Texts of an assistant's steps and of its tools. */

const plural = new Intl.PluralRules("en");

export const steps = {
  toolsLabel: "Tools of the assistant",
  toolsHint: "It answers without the tools that are switched off.",
  toolNames: {
    weather: "Weather",
    wikipedia: "Wikipedia",
    math: "Mathematics",
    image: "Images",
    web_page: "Web pages",
  },
  toolRunning: {
    weather: "Looking up the weather…",
    wikipedia: "Looking it up in Wikipedia…",
    math: "Calculating…",
    image: "Drawing…",
    web_page: "Reading the page…",
  },
  otherToolRunning: (tool: string) => `Using ${tool}…`,
  lookedUp: (what: string) => `Looked up: ${what}`,
  used: (what: string) => `Used: ${what}`,
  understoodAs: (question: string) => `Understood as: ${question}`,
  leftOut: (count: string, value: number) =>
    `This conversation is long: the model did not read its ${count} oldest ${plural.select(value) === "one" ? "message" : "messages"}.`,
  summarised: (count: string, value: number) =>
    `This conversation is long: the model read a summary of its ${count} oldest ${plural.select(value) === "one" ? "message" : "messages"}.`,
  showSummary: "Show the summary",
  stepStopped: "Stopped before it was done.",
  stepFailed: "It did not work.",
  resultLeftOut: "Done. The result is not shown: it is too large or of an unknown kind.",
  answerInCards: "The result is shown above.",
  source: "Source",
  feelsLike: (value: string) => `feels like ${value}`,
  humidity: (value: string) => `humidity ${value}`,
  wind: (value: string) => `wind ${value}`,
  temperatureOf: "Temperature",
  precipitationOf: "Precipitation",
  nextHours: "Hour by hour",
  nextDays: "Day by day",
  weatherDay: "Day",
  lowest: "Lowest",
  highest: "Highest",
  hoursChart: (from: string, to: string, lowest: string, highest: string) =>
    `Temperature and precipitation from ${from} to ${to}: between ${lowest} and ${highest}. Arrow keys go along the hours.`,
  plotChart: (what: string, from: string, to: string, lowest: string, highest: string) =>
    `Plot of ${what} from ${from} to ${to}: values between ${lowest} and ${highest}. Arrow keys go along the curve.`,
  noValue: "no value",
  showValues: "Show the values as a table",
  about: (value: string) => `≈ ${value}`,
  enlargeImage: "Enlarge the image",
  downloadImage: "Download",
  imageAlt: (prompt: string) => `Image: ${prompt}`,
  imageGone: "The image is not available any more.",
  drawnFrom: (prompt: string) => `Drawn from: ${prompt}`,
  readAt: (time: string) => `read ${time}`,
  answeredBy: (tool: string, server: string) => `${tool} (${server})`,
};
