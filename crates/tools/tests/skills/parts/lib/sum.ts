import { Size } from "./size";

export const sum = (a: number, b: number): number => a + b + (Size.Small - 1);
