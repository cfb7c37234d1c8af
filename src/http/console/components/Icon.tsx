/** Icons on a grid of 16, drawn with the color of the text. They never carry a meaning alone. */

const paths = {
  pending: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.2l2 1.3",
  processing: "M8 2.5a5.5 5.5 0 1 1-5.2 3.7",
  interrupted: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M6.6 6v4M9.4 6v4",
  completed: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M5.6 8.2l1.7 1.7 3.2-3.6",
  failed: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M6.2 6.2l3.6 3.6M9.8 6.2l-3.6 3.6",
  canceled: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M4.2 11.8l7.6-7.6",
  progress: "M8 7.5a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1",
  tasks: "M2.8 4.2l.9.9 1.6-1.8M2.8 8.4l.9.9 1.6-1.8M3.6 12.4h1M7.5 4.5h5.7M7.5 8.5h5.7M7.5 12.4h5.7",
  inbox:
    "M2.5 9.5l1.8-5.3a1 1 0 0 1 .9-.7h5.6a1 1 0 0 1 .9.7l1.8 5.3v2a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1zM2.5 9.5h3.2a2.3 2.3 0 0 0 4.6 0h3.2",
  add: "M8 3.5v9M3.5 8h9",
  overview: "M2.5 12.5h11M4.5 12V8.5M8 12V4M11.5 12V6.5",
  usage: "M3.2 12.2a5.5 5.5 0 1 1 9.6 0M8 9.5l2.2-2.9",
  cluster: "M2.8 3.5h10.4v3.6H2.8zM2.8 8.9h10.4v3.6H2.8zM5 5.3h.3M5 10.7h.3",
  user: "M8 3a2.4 2.4 0 1 0 0 4.8A2.4 2.4 0 0 0 8 3M3.4 13a4.6 4.6 0 0 1 9.2 0",
  copy: "M6 5.5h6.5v7H6zM9.8 5.5v-2H3.5v7H6",
  layers: "M8 2.8l5.5 2.8L8 8.4 2.5 5.6zM2.5 8.3L8 11.1l5.5-2.8M2.5 11L8 13.8l5.5-2.8",
  chevron: "M6 4.5L9.5 8 6 11.5",
  previous: "M10 4.5L6.5 8l3.5 3.5",
  search: "M7.2 3a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M10.4 10.4L13.5 13.5",
  tool: "M6 4.5L2.5 8 6 11.5M10 4.5L13.5 8 10 11.5",
  bell: "M4 11.5V7.2a4 4 0 0 1 8 0v4.3zM2.8 11.5h10.4M6.8 13.5h2.4",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  file: "M4.5 2.5h4.2L11.5 5.3v8.2h-7zM8.5 2.7v2.8h2.8",
  again: "M12.7 6A5 5 0 1 0 13 8.8M12.9 3v3h-3",
  warning: "M8 2.8l5.8 10.4H2.2zM8 6.6v3M8 11.2v.3",
  link: "M6.8 9.2l2.4-2.4M7.2 5l1.3-1.3a2.6 2.6 0 0 1 3.8 3.8L11 8.8M8.8 11l-1.3 1.3a2.6 2.6 0 0 1-3.8-3.8L5 7.2"
} as const

export type IconName = keyof typeof paths

export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg class={`icon icon-${name}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
    <path d={paths[name]} />
  </svg>
)
