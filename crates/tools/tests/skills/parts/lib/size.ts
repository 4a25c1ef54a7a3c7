export enum Size {
  Small = 1,
  Large,
}
