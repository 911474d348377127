import { openDiskPlace } from '../testing/disk-picture-place';
import { describeKeepImage } from '../testing/picture-store-suites';

describeKeepImage('on the local disk', openDiskPlace);
