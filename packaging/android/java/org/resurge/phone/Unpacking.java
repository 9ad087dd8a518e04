package org.resurge.phone;

import android.content.Context;
import android.util.Log;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import org.kivy.android.PythonUtil;

/**
 * The app's Python lies in the APK and is unpacked into the app's files at the first start and after each update.
 * python-for-android does that in the activity only: a service that the system starts after an update would run the old
 * Python on new libraries, and the activity would then delete the files under it. So both unpack, one at a time.
 */
final class Unpacking {
    private Unpacking() {}

    /** Held by whoever unpacks, in either process; the system lets go of it when that process dies. */
    static final class Turn implements AutoCloseable {
        private final RandomAccessFile file;
        private final FileLock lock;

        private Turn(RandomAccessFile file, FileLock lock) {
            this.file = file;
            this.lock = lock;
        }

        @Override
        public void close() {
            try {
                lock.release();
                file.close();
            } catch (IOException gone) {
                Log.w("resurge", "the unpacking lock: " + gone);
            }
        }
    }

    /** Waits until nobody else unpacks. */
    static Turn turn(Context context) throws IOException {
        RandomAccessFile file = new RandomAccessFile(new File(context.getFilesDir(), "unpacking.lock"), "rw");
        return new Turn(file, file.getChannel().lock());
    }

    /** Whether what is unpacked belongs to another APK than this. */
    static boolean stale(Context context) {
        File version = new File(PythonUtil.getAppRoot(context), "private.version");
        byte[] kept = new byte[64];
        try (InputStream stream = new FileInputStream(version)) {
            int read = Math.max(0, stream.read(kept));
            return !PythonUtil.getResourceString(context, "private_version").equals(new String(kept, 0, read));
        } catch (IOException nothingThere) {
            return true;
        }
    }

    static void unpack(Context context) throws IOException {
        try (Turn turn = turn(context)) {
            File root = new File(PythonUtil.getAppRoot(context));
            PythonUtil.unpackAsset(context, "private", root, true);
            PythonUtil.unpackPyBundle(
                    context, context.getApplicationInfo().nativeLibraryDir + "/libpybundle", root, false);
        }
    }
}
